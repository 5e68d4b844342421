// The manifest that is being written. It stays in memory while other parts of the page are open.

/** Manifest and the name of its manager. */
export interface Draft {
  text: string;
  manager: string;
  /** Namespace of manifests that name none. */
  namespace: string;
}

let current: Draft = { text: "", manager: "", namespace: "default" };

/** Returns the draft. */
export function readDraft(): Draft {
  return current;
}

/** Replaces parts of the draft. */
export function changeDraft(changes: Partial<Draft>): void {
  current = { ...current, ...changes };
}
