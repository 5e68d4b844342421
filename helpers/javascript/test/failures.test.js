// Failed tests, in runs of their own, print the timeline.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const folder = fileURLToPath(new URL('..', import.meta.url));

function run(args) {
  const env = { ...process.env };
  // Variables of the surrounding run.
  for (const name of ['VITEST', 'VITEST_POOL_ID', 'VITEST_WORKER_ID', 'NODE_ENV', 'NODE_OPTIONS']) delete env[name];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
  return { status, text: stdout + stderr };
}

test.each([
  ['Vitest', ['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/failing/vitest.config.js']],
  ['Jest', ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--testMatch', '**/failing/*.failing.js']],
])('%s prints the timeline of a failed test', (_, args) => {
  const { status, text } = run(args);
  expect(status, text).toBe(1);
  expect(text).toContain('Holdfast timeline of namespace test-');
  expect(text).toContain('mine');
  expect(text).not.toMatch(/POST.*other/);
});
