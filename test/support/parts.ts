// What `script/test` runs of all that `script/test-all` runs: docs/decisions/0100-tests-in-parts.md.

/**
 * Files of fast tests that are left out: each takes more than six seconds alone, because it starts several services, waits for something that takes long, or plays the same
 * promise through very many cases. A new file is not left out until it is as slow.
 */
export const LONG_FAST: readonly string[] = [
  'src/agent/computer/batch.test.ts',
  'src/agent/computer/computer.test.ts',
  'src/agent/computer/held-input.test.ts',
  'src/agent/fs/watch.test.ts',
  'src/agent/fs/zip.test.ts',
  'src/agent/process/processes.test.ts',
  'src/agent/recording/recording.test.ts',
  'src/cli/commands.test.ts',
  'src/cli/main.test.ts',
  'src/control/service/backup/backup.test.ts',
  'src/control/service/backup/under-load.test.ts',
  'src/control/sessions/browser-pools/acquire.test.ts',
  'src/control/sessions/browser-pools/changes.test.ts',
  'src/control/sessions/browsers/activity.test.ts',
  'src/control/sessions/browsers/fleet.test.ts',
  'src/control/sessions/browsers/fleet/endings.test.ts',
  'src/control/sessions/browsers/fleet/pool-model.test.ts',
  'src/control/sessions/browsers/fleet/pool-races.test.ts',
  'src/control/sessions/browsers/standby.test.ts',
  'src/control/service/database-away.test.ts',
  'src/control/apps/deployments/builder.test.ts',
  'src/control/apps/deployments/cut-off.test.ts',
  'src/control/apps/invocations/browsers.test.ts',
  'src/control/apps/invocations/invocations.test.ts',
  'src/control/apps/invocations/runs.test.ts',
  'src/control/main.test.ts',
  'src/control/access/audit-logs/exports/exports.test.ts',
  'src/control/access/audit-logs/exports/replicas.test.ts',
  'src/control/access/audit-logs/audit-log.test.ts',
  'src/control/access/projects/limits.test.ts',
  'src/control/access/revocations.test.ts',
  'src/control/sessions/pool-replicas.test.ts',
  'src/control/sessions/profiles/profiles.test.ts',
  'src/control/sessions/profiles/replicas.test.ts',
  'src/control/sessions/profiles/saves.test.ts',
  'src/control/sessions/replays/events.test.ts',
  'src/control/sessions/replays/replays.test.ts',
  'src/control/service/replicas.test.ts',
  'src/control/service/scope-lost.test.ts',
  'src/control/access/sign-in/replicas.test.ts',
  'src/control/sessions/telemetry/export/exporter.test.ts',
  'src/control/sessions/telemetry/export/replicas.test.ts',
  'src/control/sessions/telemetry/export/spans.test.ts',
  'src/control/sessions/telemetry/kept.test.ts',
  'src/control/sessions/telemetry/losses.test.ts',
  'src/control/sessions/telemetry/stream.test.ts',
  'src/egress/forwarder.test.ts',
  'src/runner/build.test.ts',
  'src/runner/run.test.ts',
  'src/store/embedded.test.ts',
  'src/store/leases.test.ts',
]

/** Files with a real browser that are run: of each capability the one that shows its promise through a published client, or as a page sees it. */
export const SHORT_REAL: readonly string[] = [
  'test/sdk/browsers.test.ts',
  'test/sdk/process.test.ts',
  'test/sdk/fs.test.ts',
  'test/sdk/playwright.test.ts',
  'test/sdk/telemetry.test.ts',
  'test/sdk/credentials.test.ts',
  'test/e2e/known-chromium.test.ts',
  'test/e2e/isolation.test.ts',
  'test/e2e/consent.test.ts',
  'test/e2e/dashboard-hostile.test.ts',
  'test/e2e/real-proxies.test.ts',
  'test/e2e/sign-in.test.ts',
]
/** The same at a screen. */
export const SHORT_DESK: readonly string[] = ['test/e2e/screenshots.test.ts']
export const SHORT_HANDS: readonly string[] = ['test/e2e/keyboard.test.ts']
