// Types of the Kubernetes API that the page uses.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface ManagedFieldsEntry {
  manager: string;
  operation: string;
  apiVersion: string;
  time?: string;
  subresource?: string;
  fieldsV1?: Json;
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  managedFields?: ManagedFieldsEntry[];
  ownerReferences?: OwnerReference[];
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  [field: string]: unknown;
}

/** Item of `details.conflicts`, which the server adds if `conflictDetails` is set. */
export interface ConflictDetail {
  field: string;
  manager: string;
  operation?: string;
  subresource?: string;
  time?: string;
  stored?: Json;
  requested?: Json;
  storedTruncated?: string;
  requestedTruncated?: string;
}

export interface Status {
  kind: "Status";
  status?: string;
  message?: string;
  reason?: string;
  code?: number;
  details?: {
    name?: string;
    causes?: { reason?: string; message?: string; field?: string }[];
    conflicts?: ConflictDetail[];
    conflictsOmitted?: number;
  };
}

export interface TableColumn {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority: number;
}

export interface TableRow {
  cells: Json[];
  object: { metadata: ObjectMeta };
}

export interface Table {
  kind: "Table";
  metadata: { resourceVersion?: string; continue?: string; remainingItemCount?: number };
  columnDefinitions: TableColumn[] | null;
  rows: TableRow[] | null;
}

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** Resource of the server. */
export interface Resource {
  group: string;
  version: string;
  plural: string;
  kind: string;
  isNamespaced: boolean;
  verbs: string[];
  shortNames: string[];
}
