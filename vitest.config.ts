import { defineConfig } from 'vitest/config'

const e2e = (names: string[]) => names.map((name) => `test/e2e/${name}.test.ts`)
// What a person would do at a screen. With a person's timing (steps and wheel notches that must not share a frame, pointer paths, films of a clock):
const HANDS = e2e(['drag', 'drops', 'keyboard', 'pointer', 'replays'])
// and at the speed of the page: it waits for what becomes visible.
const DESK = e2e(['applications*', 'batch', 'clipboard', 'live-view', 'recordings', 'screen', 'screenshots'])
// The tests that also run at the display of a lean session.
const LEAN = e2e(['batch', 'clipboard', 'drag', 'keyboard', 'live-view', 'pointer', 'screen', 'screenshots', 'thumbnails'])
// One group after the other. fast: the real routes over a pretended browser, beside the code; three files at a time, because they often wait. real:
// Chromium, X11, Postgres, the published clients; two files at a time. desk: the same, with a mouse and a keyboard. hands: one file at a time, because
// two cores carry only so many frames a second.
const project = (
  name: string,
  groupOrder: number,
  maxWorkers: number,
  timeouts: number,
  include: string[],
  exclude: string[] = [],
  env: Record<string, string> = {},
) => ({
  test: {
    name,
    include,
    exclude,
    env,
    sequence: { groupOrder },
    pool: 'forks' as const,
    maxWorkers,
    fileParallelism: maxWorkers > 1,
    testTimeout: timeouts,
    hookTimeout: Math.max(60_000, timeouts),
    // What is polled comes at once as a rule, and later on a busy machine.
    expect: { poll: { timeout: 10_000 } },
  },
})

export default defineConfig({
  test: {
    globalSetup: ['test/support/developer.ts', 'test/support/scratch.ts', 'test/support/template.ts', 'test/support/shared-cloud.ts'],
    // The shared services end and are checked; the files of their last sessions are removed at the lowest priority.
    teardownTimeout: 120_000,
    reporters: ['default', './test/support/summary.ts'],
    projects: [
      project('fast', 0, 3, 30_000, ['src/**/*.test.ts', 'web/**/*.test.ts', 'test/*.test.ts']),
      project('real', 1, 2, 120_000, ['test/{sdk,e2e,chaos}/**/*.test.ts'], [...HANDS, ...DESK]),
      project('desk', 2, 2, 120_000, DESK),
      project('hands', 3, 1, 120_000, HANDS),
      project('lean', 3, 1, 120_000, LEAN, [], { COB_TEST_LEAN: '1' }),
      // Only with the collector that script/test-otel builds.
      ...(process.env.COB_TEST_OTEL ? [project('otel', 4, 1, 120_000, ['test/otel/*.test.ts'])] : []),
      // Only with the applications that script/setup-logins installs; "quick": those that install quickly, judged in short.
      ...(process.env.COB_TEST_LOGINS ? [project('logins', 4, 1, 180_000, ['test/logins/judged.test.ts'])] : []),
      // Only with the clients that script/test-quickstarts installs.
      ...(process.env.COB_TEST_QUICKSTARTS ? [project('quickstarts', 4, 1, 180_000, ['test/quickstarts/*.test.ts'])] : []),
      // Only with the cluster that script/test-kubernetes starts.
      ...(process.env.COB_TEST_KUBERNETES ? [project('kubernetes', 4, 1, 240_000, ['test/kubernetes/*.test.ts', 'test/docker/apps.test.ts'])] : []),
      // Only with the daemon that script/test-docker starts.
      ...(process.env.COB_TEST_DOCKER ? [project('docker', 4, 1, 180_000, ['test/docker/*.test.ts'])] : []),
      // Only with the server that script/test-s3 starts.
      ...(process.env.COB_TEST_S3 ? [project('s3', 4, 1, 120_000, ['test/s3/*.test.ts'])] : []),
    ],
  },
})
