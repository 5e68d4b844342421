// Keys that work everywhere, and the dialog that lists them.

import { Dialog, DialogDismiss, DialogHeading } from "@ariakit/react";
import { useEffect, useState } from "react";

import { go } from "../route.ts";

/** Keys after `g`, and the places that they open. */
const PLACES: Record<string, { title: string; fragment: string }> = {
  o: { title: "Open the objects", fragment: "#/" },
  w: { title: "Preview an apply", fragment: "#/apply" },
  m: { title: "Show the managers of a namespace", fragment: "#/managers" },
};

const KEYS: [keys: string, title: string][] = [
  ["/", "Search"],
  ["↑ ↓ Page ↑ Page ↓ Home End", "Move in a table"],
  ["Enter", "Open the selected object"],
  ["Ctrl+F", "Search in the text of an object, while it has the focus"],
  ["Ctrl+Shift+[ and ]", "Fold and unfold at the caret"],
  ...Object.entries(PLACES).map(([key, { title }]): [string, string] => [`g ${key}`, title]),
  ["?", "Show these keys"],
];

/** Time within which the second key of a pair is pressed, in milliseconds. */
const PAIR_MS = 1_500;

export function Shortcuts() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    let begun = 0;
    const listener = (event: KeyboardEvent): void => {
      const target = event.composedPath()[0];
      const isTyping = target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      const place = event.timeStamp - begun < PAIR_MS ? PLACES[event.key] : undefined;
      begun = event.key === "g" ? event.timeStamp : 0;
      if (place) go(place.fragment);
      else if (event.key === "?") setOpen(true);
      else if (event.key === "/") {
        const field = document.querySelector<HTMLElement>("[data-shortcut='/']");
        field?.focus();
        if (!field) return;
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
  return (
    <>
      <button type="button" className="is-quiet" onClick={() => setOpen(true)}>
        Keys
      </button>
      <Dialog
        open={isOpen}
        onClose={() => setOpen(false)}
        className="dialog"
        backdrop={<div className="backdrop" />}
        preventBodyScroll={false}
      >
        <DialogHeading>Keys</DialogHeading>
        <dl>
          {KEYS.map(([keys, title]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{title}</dd>
            </div>
          ))}
        </dl>
        <p className="hint">
          <a href="licenses.txt" target="_blank" rel="noreferrer">
            Licences of the libraries of this page
          </a>
        </p>
        <DialogDismiss className="is-primary">Close</DialogDismiss>
      </Dialog>
    </>
  );
}
