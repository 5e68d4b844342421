import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/failing/vitest.failing.js'], testTimeout: 120_000, hookTimeout: 120_000 },
});
