import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect } from "react";

/** Lets the editors follow the system when it turns dark or light, unless a theme was chosen. */
export function SystemTheme() {
  const chosen = useGraphiQL((state) => state.theme);
  const { setTheme } = useGraphiQLActions();
  useEffect(() => {
    if (chosen) return;
    const system = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => setTheme(null);
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, [chosen, setTheme]);
  return null;
}
