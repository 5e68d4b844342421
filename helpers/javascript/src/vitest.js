/** Setup for Vitest. */

import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';

import { Setup } from './setup.js';

/**
 * Starts a server before the tests of the file or of the group, and ends it after them. Objects and faults are reset after
 * each test. A failed test prints the timeline of its namespace.
 *
 * @param {import('./index.js').Options} [options]
 */
export function useHoldfast(options = {}) {
  const setup = new Setup(options);
  beforeAll(() => setup.begin());
  beforeEach(() => setup.beforeTest());
  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') console.error(await setup.report());
    await setup.afterTest();
  });
  afterAll(() => setup.end());
  return setup;
}
