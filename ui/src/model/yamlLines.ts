// An object as YAML text, with the path that each line shows.

import { type Document, type Node, type Pair, isMap as isYamlMap, isNode, isScalar, isSeq, parseDocument, stringify } from "yaml";

import type { Json } from "../api/types.ts";
import type { Path, Step } from "./fields.ts";

/** YAML text with the path of each line. */
export interface YamlLines {
  text: string;
  /** Path that the line begins, by the index of the line. A line that begins several shows the deepest. */
  paths: Path[];
  /** True if the line is the first of its path. Texts of several lines have one path. */
  isFirst: boolean[];
}

/** Returns the YAML of a value. */
export function toYaml(value: Json): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false, version: "1.1", blockQuote: "literal" });
}

/** Returns the YAML of a value with the path of each line. */
export function yamlLines(value: Json): YamlLines {
  const text = toYaml(value).replace(/\n$/, "");
  const starts = lineStarts(text);
  const lineAt = (offset: number): number => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const paths: (Path | undefined)[] = new Array(starts.length).fill(undefined);
  const visit = (node: unknown, path: Path): void => {
    if (isYamlMap(node)) {
      for (const pair of node.items as Pair<Node, Node | null>[]) {
        const key: Step = isScalar(pair.key) ? String(pair.key.value) : "";
        const below = [...path, key];
        if (isNode(pair.key) && pair.key.range) paths[lineAt(pair.key.range[0])] = below;
        visit(pair.value, below);
      }
    } else if (isSeq(node)) {
      node.items.forEach((item, index) => {
        const below = [...path, index];
        if (isNode(item) && item.range) {
          const line = lineAt(item.range[0]);
          paths[line] = below;
        }
        visit(item, below);
      });
    }
  };
  const document: Document.Parsed = parseDocument(text, { version: "1.1", logLevel: "silent", uniqueKeys: false });
  visit(document.contents, []);
  let last: Path = [];
  const isFirst = paths.map((path) => path !== undefined);
  const filled = paths.map((path) => (last = path ?? last));
  return { text, paths: filled, isFirst };
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}
