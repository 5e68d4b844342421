import type { KubeConfig } from '@kubernetes/client-node';

/** Options of a server. */
export interface Options {
  /** Path of the binary. The default is the value of HOLDFAST, or the first one in PATH. */
  binary?: string;
  /** Controllers, as in the flag --controllers. The default is `['*']`. */
  controllers?: string[];
  /** Further flags of the server. */
  args?: string[];
}

/** A kept state of all objects. */
export interface Checkpoint {
  name: string;
  creationTimestamp: string;
  resourceVersion: string;
  objects: number;
}

/** Changes of a restore. */
export interface Restored {
  resourceVersion: string;
  created: number;
  updated: number;
  deleted: number;
  duration: string;
}

/** The requests that a fault concerns. An absent field selects every value. */
export interface Match {
  verbs?: string[];
  group?: string;
  resource?: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  user?: string;
  credentialId?: string;
  /** A part of the header. */
  userAgent?: string;
  webhookConfiguration?: string;
  webhook?: string;
}

/** The effect of a fault. */
export type Action =
  | { error: { code: 409 | 429 | 500 | 503 | 504; message?: string; retryAfterSeconds?: number } }
  | { timeoutAfterWrite: Record<string, never> }
  | { latency: { duration: string } }
  | { watch: WatchAction }
  | { webhookUnavailable: Record<string, never> }
  | { tokenExpired: Record<string, never> };

/** The effect on a watch. */
export type WatchAction =
  | { end: { afterEvents: number } }
  | { expired: { afterEvents: number } }
  | { lag: { duration: string } };

/** A rule that causes an error, a delay or the end of a watch. */
export interface Fault {
  match?: Match;
  /** Number of matching requests that pass first. */
  skip?: number;
  /** Maximum number of times that the fault fires. */
  count?: number;
  /** From 0 to 1. */
  probability?: number;
  seed?: number;
  action: Action;
}

/** A fault with its counters. */
export interface FaultReport extends Fault {
  id: number;
  status: { matched: number; fired: number };
}

/** Time of a server. */
export interface Clock {
  now: string;
  /** Duration by which the server is ahead. */
  advanced: string;
}

/** Answer with an error status. */
export class ApiError extends Error {
  readonly code: number;
}

/** Number of lines of the timeline that a failed test prints. */
export const TIMELINE_LINES: number;

/** Controls of a server that has the endpoints for tests (--testing-endpoints). */
export class Controls {
  /** @param kubeconfig Text of a kubeconfig of a user with all rights. */
  constructor(kubeconfig: string);
  readonly kubeconfig: string;
  readonly kubeConfig: KubeConfig;
  readonly url: string;
  /** Keeps the current state of all objects as a checkpoint. */
  keep(name: string): Promise<Checkpoint>;
  checkpoints(): Promise<Checkpoint[]>;
  /** Deletes a checkpoint. */
  forget(name: string): Promise<void>;
  /** Restores the state of a checkpoint. Open watches get the changes, or 410 with `expire`. */
  restore(name: string, watchers?: 'differences' | 'expire'): Promise<Restored>;
  /** Starts a server with the state of a checkpoint, in the process of this one. */
  fork(checkpoint: string): Promise<Fork>;
  addFault(fault: Fault): Promise<FaultReport>;
  faults(): Promise<FaultReport[]>;
  fault(id: number): Promise<FaultReport>;
  /** Deletes a fault, and returns its last counters. */
  removeFault(id: number): Promise<FaultReport>;
  /** Deletes all faults, and returns their last counters. */
  clearFaults(): Promise<FaultReport[]>;
  /** Moves the clock forward by a duration such as `1h30m`. */
  advance(by: string): Promise<Clock>;
  clock(): Promise<Clock>;
  /** Returns the last lines of the timeline of a namespace. An empty namespace selects all requests. */
  timeline(namespace?: string, limit?: number): Promise<string>;
}

/** Another server in the process of the first one. */
export class Fork extends Controls {
  private constructor();
  /** Ends the fork. It ends with the first server at the latest. */
  stop(): Promise<void>;
}

/** A server with its objects in memory, on a free port. */
export class Server extends Controls {
  private constructor();
  /** Returns the end of the log of the server. */
  log(): string;
  stop(): Promise<void>;
}

/** Starts a server. It ends with `stop`, or with this process. */
export function startHoldfast(options?: Options): Promise<Server>;

/** Returns the path of the binary: `explicit`, the value of HOLDFAST, or the first one in PATH. */
export function findBinary(explicit?: string): string;
