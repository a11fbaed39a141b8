import { type FormEvent, useState } from "react";
import type { Identity } from "./api";
import { cleanToken, isSendable } from "./token";

type Props = {
  value: string;
  identity: Identity;
  onChange: (token: string) => void;
};

/** The slim bar above GraphiQL: whose token it is, and the field to change it. */
export function TokenBar({ value, identity, onChange }: Props) {
  const [draft, setDraft] = useState(value);
  const [shown, setShown] = useState(false);
  const cleaned = cleanToken(draft);
  const sendable = isSendable(cleaned);

  function apply() {
    if (!sendable) return;
    setDraft(cleaned);
    if (cleaned !== value) onChange(cleaned);
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    apply();
  }

  function forget() {
    setDraft("");
    onChange("");
  }

  return (
    <header className="bar">
      <h1 className="bar-title">
        <Mark />
        Trigger Manager
      </h1>
      <Status identity={identity} sendable={sendable} />
      <form className="bar-form" autoComplete="off" onSubmit={submit}>
        <label htmlFor="token">Token</label>
        <div className="bar-field">
          <input
            id="token"
            type={shown ? "text" : "password"}
            value={draft}
            placeholder="Paste a token"
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            data-1p-ignore=""
            data-lpignore="true"
            aria-invalid={!sendable}
            aria-describedby="token-status"
            onChange={(event) => setDraft(event.target.value)}
            onBlur={apply}
          />
          <button type="button" aria-pressed={shown} aria-controls="token" onClick={() => setShown(!shown)}>
            {shown ? "Hide" : "Show"}
          </button>
        </div>
        <button type="submit" disabled={cleaned === value || !sendable}>
          Use
        </button>
        <button type="button" disabled={!value && !draft} onClick={forget}>
          Forget
        </button>
      </form>
    </header>
  );
}

function Status({ identity, sendable }: { identity: Identity; sendable: boolean }) {
  const { tone, text, detail } = sendable
    ? describe(identity)
    : { tone: "bad", text: "Not a token", detail: "A token has no spaces and only plain characters." };
  return (
    <p className={`bar-status ${tone}`} id="token-status" role="status" data-state={identity.state} title={detail}>
      <span className="bar-dot" aria-hidden="true" />
      <span className="bar-text">{text}</span>
    </p>
  );
}

function describe(identity: Identity): { tone: string; text: string; detail?: string } {
  switch (identity.state) {
    case "anonymous":
      return { tone: "idle", text: "No token", detail: "Requests are sent without credentials." };
    case "checking":
      return { tone: "idle", text: "Checking the token…" };
    case "known":
      return { tone: "good", text: `Signed in as ${identity.email}` };
    case "rejected":
      return { tone: "bad", text: "Token not accepted", detail: "It is wrong, expired or revoked." };
    case "unknown":
      return { tone: "warn", text: "Token set, owner unknown", detail: identity.detail };
  }
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#5b4fd6" />
      <circle cx="16" cy="16" r="9" fill="none" stroke="#fff" strokeWidth="2.5" />
      <path d="M16 10.5V16l4 3" fill="none" stroke="#fff" strokeWidth="2.5" strokeLinecap="round" />
    </svg>
  );
}
