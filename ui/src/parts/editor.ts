// The editor, CodeMirror, in a shadow root: there it needs no `<style>` elements, which the Content-Security-Policy forbids.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, codeFolding, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--muted)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", borderRight: "1px solid var(--edge)" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--ink)" },
  ".cm-searchMatch": { backgroundColor: "var(--mark)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--edge)" },
});

/** Options of an editor. */
export interface EditorOptions {
  text: string;
  label: string;
  isReadOnly: boolean;
  extensions?: Extension;
}

/** Creates an editor in an element. */
export function createEditor(parent: HTMLElement, options: EditorOptions): EditorView {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const holder = document.createElement("div");
  holder.style.height = "100%";
  root.replaceChildren(holder);
  const attributes: Record<string, string> = { "aria-label": options.label, tabindex: "0" };
  if (options.isReadOnly) {
    // The caret moves by the keyboard, but no keyboard appears on a touch screen.
    Object.assign(attributes, { "aria-readonly": "true", inputmode: "none" });
  }
  return new EditorView({
    parent: holder,
    root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        options.extensions ?? [],
        lineNumbers(),
        codeFolding(),
        foldGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        search({ top: true }),
        yaml(),
        syntaxHighlighting(colours),
        theme,
        EditorState.readOnly.of(options.isReadOnly),
        EditorView.contentAttributes.of(attributes),
        keymap.of([...searchKeymap, ...foldKeymap, ...historyKeymap, ...defaultKeymap]),
      ],
    }),
  });
}

/** Replaces the text of an editor. Lines before and after the change keep their folds, and the caret stays. */
export function replaceText(view: EditorView, text: string): void {
  const old = view.state.doc.toString();
  if (old === text) return;
  let start = 0;
  const shorter = Math.min(old.length, text.length);
  while (start < shorter && old[start] === text[start]) start += 1;
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
  view.dispatch({ changes: { from: start, to: old.length - end, insert: text.slice(start, text.length - end) } });
}
