// Builds the page into the folder that the crate `ui` embeds, or into the folder that is the first argument. The output
// depends only on the sources and on package-lock.json.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";

/** Maximum number of bytes of all built files. */
const MAX_BYTES = 1 << 20;

const here = import.meta.dirname;
const target = path.resolve(process.argv[2] ?? path.join(here, "../crates/ui/dist"));

await mkdir(target, { recursive: true });
const { metafile } = await build({
  absWorkingDir: here,
  metafile: true,
  entryPoints: { app: "src/main.tsx" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  legalComments: "none",
  charset: "utf8",
  define: { "process.env.NODE_ENV": '"production"' },
});
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/app.css" },
  outdir: target,
  bundle: true,
  minify: true,
  target: ["chrome123", "firefox120", "safari17.5"],
});
for (const name of ["index.html", "icon.svg"]) {
  await copyFile(path.join(here, "src", name), path.join(target, name));
}
await writeFile(path.join(target, "licenses.txt"), await licenses(Object.keys(metafile.inputs)));
let total = 0;
for (const name of ["index.html", "icon.svg", "licenses.txt", "app.js", "app.css"]) {
  total += (await stat(path.join(target, name))).size;
}
console.log(`${target}: ${total} bytes`);
if (total > MAX_BYTES) {
  console.error(`the built files have ${total} bytes; at most ${MAX_BYTES} are allowed`);
  process.exit(1);
}

/** Returns the names and licences of the packages that are part of the page. */
async function licenses(inputs) {
  const names = new Set(inputs.map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean));
  const parts = [];
  for (const name of [...names].sort()) {
    const folder = path.join(here, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((file) => /^licen[cs]e/i.test(file));
    const text = file ? await readFile(path.join(folder, file), "utf8") : "";
    parts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}
