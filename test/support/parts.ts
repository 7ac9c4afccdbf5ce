// What `script/test` runs of the tests with a real browser; `script/test-all` runs all of them: docs/decisions/0100-tests-in-parts.md.

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
