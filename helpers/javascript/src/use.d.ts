import type { KubeConfig } from '@kubernetes/client-node';
import type { Options, Server } from './index.js';

/** A server for the tests of a file or of a group of tests. */
export interface Setup {
  /** The server. It exists only during tests and their hooks. */
  readonly server: Server;
  /** Configuration of a client with all rights. */
  readonly kubeConfig: KubeConfig;
  /** Creates a namespace for the current test, or returns it. */
  namespace(): Promise<string>;
}

/**
 * Starts a server before the tests of the file or of the group, and ends it after them. Objects and faults are reset after
 * each test. A failed test prints the timeline of its namespace.
 */
export function useHoldfast(options?: Options): Setup;
