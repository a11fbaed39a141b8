import { readFileSync, readdirSync, unlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "fflate";
import { defineConfig } from "vite";

// Replaces every built file by its gzip-ed form. The compressor is plain
// JavaScript and the time stamp is fixed, so that the bytes are the same on
// every machine.
function compress() {
  let outDir;
  return {
    name: "compress",
    apply: "build",
    configResolved(config) {
      outDir = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      const entries = readdirSync(outDir, { recursive: true, withFileTypes: true });
      for (const entry of entries.filter((e) => e.isFile())) {
        const path = join(entry.parentPath, entry.name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9, mtime: 0 }));
        unlinkSync(path);
      }
    },
  };
}

// Libraries change rarely and the page's own code often: apart, a small edit
// replaces a small file. The editor and the formatter are loaded when needed and
// get chunks of their own; `standaloneEnums` is the one part of the editor that
// is needed at once, and would draw the rest along.
const lazy = /[\\/]node_modules[\\/](monaco-editor|monaco-graphql|prettier)[\\/]/;
const eager = /[\\/]standaloneEnums\.js$|vite[\\/]preload-helper/;

const groups = [
  { name: "react", test: /[\\/]node_modules[\\/](react|react-dom|scheduler)[\\/]/, priority: 2 },
  { name: "graphql", test: /[\\/]node_modules[\\/]graphql[\\/]/, priority: 2 },
  {
    name: "vendor",
    test: (id) => eager.test(id) || (id.includes("node_modules") && !lazy.test(id)),
    priority: 1,
  },
];

export default defineConfig({
  // The page stands at `<base>/graphiql` without a trailing slash, so `./` is
  // `<base>/`, whatever a proxy puts in front.
  base: "./",
  plugins: [compress()],
  worker: { format: "es" },
  build: {
    assetsDir: "graphiql/assets",
    assetsInlineLimit: 0,
    target: "es2022",
    chunkSizeWarningLimit: 4096,
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      input: "graphiql.html",
      output: { codeSplitting: { groups } },
      onLog(level, log, report) {
        // "use client" in libraries means nothing outside a server renderer.
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") report(level, log);
      },
    },
  },
  server: {
    // `npm run dev` shows the page against a server started beside it.
    proxy: { "/graphql": { target: "http://127.0.0.1:8080", ws: true } },
  },
});
