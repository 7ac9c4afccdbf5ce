import { defineConfig } from 'vitest/config'

// fast: the real routes over a pretended browser, beside the code. real: Chromium, X11, Postgres, the published clients; one
// file at a time, because two cores carry only so many browsers and the leak check compares the machine before and after.
export default defineConfig({
  test: {
    projects: [
      { test: { name: 'fast', include: ['src/**/*.test.ts', 'test/*.test.ts'], testTimeout: 30_000, hookTimeout: 60_000, pool: 'forks', maxWorkers: 2 } },
      { test: { name: 'real', include: ['test/{sdk,e2e,chaos}/**/*.test.ts'], testTimeout: 120_000, hookTimeout: 120_000, pool: 'forks', maxWorkers: 1, fileParallelism: false } },
    ],
  },
})
