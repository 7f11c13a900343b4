// Makes the assets of the report and of the server's page of src/ and the libraries: npm ci && npm run build
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";

const PAGES = {
  report: { assets: "../assets", libraries: ["diff", "fflate", "preact"] },
  live: { assets: "../../../service/http/assets", libraries: ["diff", "fflate", "preact"] },
};

const options = { bundle: true, minify: true, legalComments: "none", charset: "utf8", logLevel: "info" };

// What all was made of, for the test that it was made again when that changed.
const sources = (await readdir("src", { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile())
  .map((entry) => `${entry.parentPath}/${entry.name}`);
const hash = createHash("sha256");
for (const name of ["build.mjs", "package-lock.json", ...sources].sort()) hash.update(`${name}\n`).update(await readFile(name));
const digest = `${hash.digest("hex")}\n`;

for (const [page, { assets, libraries }] of Object.entries(PAGES)) {
  await build({
    ...options,
    entryPoints: [`src/${page}/main.tsx`],
    outfile: `${assets}/${page}.js`,
    format: "iife",
    target: "es2023",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  await build({ ...options, entryPoints: [`src/${page}/style.css`], outfile: `${assets}/${page}.css` });
  const parts = [`${page}.js contains these libraries, each under its own licence.\n`];
  for (const name of libraries) {
    const about = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
    const licence = await readFile(`node_modules/${name}/LICENSE`, "utf8");
    parts.push(`${name} ${about.version} (${about.license})\n\n${licence.trim()}\n`);
  }
  await writeFile(`${assets}/LICENSES.txt`, parts.join(`\n${"-".repeat(80)}\n\n`));
}
await writeFile("sources.sha256", digest);
