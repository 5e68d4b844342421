// Builds the page into the folder that the crate `ui` embeds, or into the folder that is the first argument. The output
// depends only on the sources and on package-lock.json.
import { build } from "esbuild";
import { copyFile, mkdir, stat } from "node:fs/promises";
import path from "node:path";

/** Maximum number of bytes of all built files. */
const MAX_BYTES = 1 << 20;

const here = import.meta.dirname;
const target = path.resolve(process.argv[2] ?? path.join(here, "../crates/ui/dist"));

await mkdir(target, { recursive: true });
await build({
  absWorkingDir: here,
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
let total = 0;
for (const name of ["index.html", "icon.svg", "app.js", "app.css"]) {
  total += (await stat(path.join(target, name))).size;
}
console.log(`${target}: ${total} bytes`);
if (total > MAX_BYTES) {
  console.error(`the built files have ${total} bytes; at most ${MAX_BYTES} are allowed`);
  process.exit(1);
}
