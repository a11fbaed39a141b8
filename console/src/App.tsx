import { explorerPlugin } from "@graphiql/plugin-explorer";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { useEffect, useState } from "react";
import { createFetcher, type Identity, whoAmI } from "./api";
import { firstTabs, newTab } from "./examples";
import { reconnect } from "./socket";
import { SystemTheme } from "./SystemTheme";
import { TokenBar } from "./TokenBar";
import { keepToken, token } from "./token";

const plugins = [HISTORY_PLUGIN, explorerPlugin({ showAttribution: false })];

/** The whole page. */
export function App() {
  const [value, setValue] = useState(token);
  const [fetcher, setFetcher] = useState(() => createFetcher());
  const identity = useIdentity(value);

  function change(next: string) {
    keepToken(next);
    setValue(next);
    setFetcher(() => createFetcher());
    reconnect();
  }

  return (
    <div className="page">
      <TokenBar value={value} identity={identity} onChange={change} />
      <GraphiQL
        fetcher={fetcher}
        plugins={plugins}
        defaultTabs={firstTabs}
        defaultQuery={newTab}
        schemaDescription
        inputValueDeprecation
        showPersistHeadersSettings={false}
      >
        <GraphiQL.Logo>GraphiQL</GraphiQL.Logo>
        <SystemTheme />
      </GraphiQL>
    </div>
  );
}

function useIdentity(value: string): Identity {
  const [identity, setIdentity] = useState<Identity>({ state: value ? "checking" : "anonymous" });
  useEffect(() => {
    const abort = new AbortController();
    setIdentity({ state: value ? "checking" : "anonymous" });
    whoAmI(abort.signal).then((answer) => {
      if (!abort.signal.aborted) setIdentity(answer);
    });
    return () => abort.abort();
  }, [value]);
  return identity;
}
