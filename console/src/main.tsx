import "graphiql/setup-workers/vite";
import { createRoot } from "react-dom/client";
import { App } from "./App";

// The parts' own style sheets instead of graphiql/style.css, which carries 35
// embedded fonts and a second copy of the editor's styles.
import "@graphiql/react/style.css";
import "@graphiql/plugin-doc-explorer/style.css";
import "@graphiql/plugin-history/style.css";
import "@graphiql/plugin-explorer/style.css";
import "graphiql/graphiql.css";
import "./page.css";

const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
