// Makes assets/report.js, assets/report.css and assets/LICENSES.txt of src/ and the libraries: npm ci && npm run build
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const LIBRARIES = ["diff", "fflate", "preact"];

const options = { bundle: true, minify: true, legalComments: "none", charset: "utf8", logLevel: "info" };
await build({
  ...options,
  entryPoints: ["src/main.tsx"],
  outfile: "../assets/report.js",
  format: "iife",
  target: "es2023",
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
});
await build({ ...options, entryPoints: ["src/style.css"], outfile: "../assets/report.css" });

const parts = ["report.js contains these libraries, each under its own licence.\n"];
for (const name of LIBRARIES) {
  const about = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
  const licence = await readFile(`node_modules/${name}/LICENSE`, "utf8");
  parts.push(`${name} ${about.version} (${about.license})\n\n${licence.trim()}\n`);
}
await writeFile("../assets/LICENSES.txt", parts.join(`\n${"-".repeat(80)}\n\n`));
