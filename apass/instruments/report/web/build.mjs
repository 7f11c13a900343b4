// Makes all of ../assets of src/ and the libraries: npm ci && npm run build
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";

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

// What it was made of, for the test that it was made again when that changed.
const sources = ["build.mjs", "package-lock.json", ...(await readdir("src")).map((name) => `src/${name}`)].sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\n`).update(await readFile(name));
await writeFile("../assets/sources.sha256", `${hash.digest("hex")}\n`);
