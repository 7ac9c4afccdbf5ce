// Loads all of the agent's code to fill V8's compile cache. The driver runs it once, never in a session.
import { flushCompileCache } from 'node:module'

await Promise.all([
  import('./display/xvfb.ts'),
  import('./display/x11.ts'),
  import('./display/screen.ts'),
  import('./display/windows.ts'),
  import('./chromium/keeper.ts'),
  import('./chromium/bidi.ts'),
  import('./chromium/bidi-mapper.ts'),
  import('./chromium/handled.ts'),
  import('./chromium/policies.ts'),
  import('./chromium/window.ts'),
  import('./computer/keyboard.ts'),
  import('./computer/grip.ts'),
  import('./display/clipboard.ts'),
  import('./curl/curl.ts'),
  import('./fs/files.ts'),
  import('./fs/zip.ts'),
  import('./fs/unzip.ts'),
  import('./playwright/playwright.ts'),
  import('./playwright/runs.ts'),
  import('./process/processes.ts'),
  import('./process/pty.ts'),
  import('./live/view.ts'),
  import('./logs/handlers.ts'),
  import('./logs/small.ts'),
  import('./recording/recordings.ts'),
  import('./serve.ts'),
  import('./session/inside.ts'),
])
flushCompileCache()
