// The margin of an object's YAML: the owners of each line.

import { type Extension, type Range, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, gutter } from "@codemirror/view";

/** Content of the margin next to one line. */
export interface MarginLine {
  /** Names of the owners, or the reason for which there are none. */
  label: string;
  title: string;
  colours: number[];
  kind: "owned" | "shared" | "default" | "none" | "system" | "structure";
  /** True if the field changed a short time ago. */
  isRecent: boolean;
  /** True if the filter hides the owners of the line. */
  isDimmed: boolean;
}

export const setMargin = StateEffect.define<readonly MarginLine[]>();

class OwnerMarker extends GutterMarker {
  constructor(readonly line: MarginLine) {
    super();
  }

  override eq(other: OwnerMarker): boolean {
    const [mine, theirs] = [this.line, other.line];
    return (
      mine.label === theirs.label && mine.title === theirs.title && mine.kind === theirs.kind && mine.isDimmed === theirs.isDimmed
    );
  }

  override toDOM(): Node {
    const { label, title, colours, kind, isDimmed } = this.line;
    const element = document.createElement("div");
    element.className = `owner is-${kind}${isDimmed ? " is-dimmed" : ""}`;
    element.title = title;
    for (const colour of colours) {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.backgroundColor = `var(--owner-${colour})`;
      element.append(bar);
    }
    const name = document.createElement("span");
    name.className = "name";
    // Names come from other users: they are text, never HTML.
    name.textContent = label;
    element.append(name);
    return element;
  }
}

const lines = StateField.define<readonly MarginLine[]>({
  create: () => [],
  update: (value, transaction) =>
    transaction.effects.reduce((current, effect) => (effect.is(setMargin) ? effect.value : current), value),
});

const recent = Decoration.line({ class: "cm-recent" });
const dimmed = Decoration.line({ class: "cm-dimmed" });

const decorations = EditorView.decorations.compute([lines, "doc"], (state): DecorationSet => {
  const ranges: Range<Decoration>[] = [];
  state.field(lines).forEach(({ isRecent, isDimmed }, index) => {
    if (!(isRecent || isDimmed) || index >= state.doc.lines) return;
    const { from } = state.doc.line(index + 1);
    if (isRecent) ranges.push(recent.range(from));
    if (isDimmed) ranges.push(dimmed.range(from));
  });
  return RangeSet.of(ranges, true);
});

const theme = EditorView.theme({
  ".cm-owners": { minWidth: "4.5rem", maxWidth: "min(15rem, 32vw)", borderRight: "1px solid var(--edge)" },
  ".cm-owners .cm-gutterElement": { padding: "0" },
  ".owner": {
    display: "flex",
    alignItems: "stretch",
    height: "100%",
    fontFamily: "system-ui, sans-serif",
    fontSize: "12px",
    color: "var(--ink)",
  },
  ".owner .bar": { flex: "none", width: "5px", marginRight: "2px" },
  ".owner .name": { padding: "0 6px 0 4px", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" },
  ".owner.is-shared .name": { fontWeight: "600" },
  ".owner.is-default .name, .owner.is-none .name": { color: "var(--muted)", fontStyle: "italic", paddingLeft: "11px" },
  ".owner.is-dimmed .bar": { opacity: "0.35" },
  ".owner.is-dimmed .name": { color: "var(--muted)" },
  ".cm-line.cm-recent": { backgroundColor: "var(--recent)" },
  ".cm-line.cm-dimmed, .cm-line.cm-dimmed span": { color: "var(--muted)" },
});

/** Returns the extension that shows the margin. `setMargin` sets its lines. */
export function ownersMargin(): Extension {
  return [
    lines,
    decorations,
    theme,
    gutter({
      class: "cm-owners",
      lineMarker: (view, block) => {
        const line = view.state.field(lines)[view.state.doc.lineAt(block.from).number - 1];
        return line && line.kind !== "system" && line.kind !== "structure" ? new OwnerMarker(line) : null;
      },
      lineMarkerChange: (update) =>
        update.transactions.some((transaction) => transaction.effects.some((effect) => effect.is(setMargin))),
    }),
  ];
}
