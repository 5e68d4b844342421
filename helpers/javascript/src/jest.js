/** Setup for Jest. */

import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';

import { Setup } from './setup.js';

/** Name of the global variable with the setups of a file, which the environment reads. */
const SETUPS = Symbol.for('holdfast.setups');

/**
 * Starts a server before the tests of the file or of the group, and ends it after them. Objects and faults are reset after
 * each test. With the environment holdfast-testing/jest-environment, a failed test prints the timeline of its namespace.
 *
 * @param {import('./index.js').Options} [options]
 */
export function useHoldfast(options = {}) {
  const setup = new Setup(options);
  /** @type {Set<Setup>} */
  const setups = (/** @type {any} */ (globalThis)[SETUPS] ??= new Set());
  beforeAll(async () => {
    await setup.begin();
    setups.add(setup);
  });
  beforeEach(() => setup.beforeTest());
  afterEach(() => setup.afterTest());
  afterAll(async () => {
    setups.delete(setup);
    await setup.end();
  });
  return setup;
}
