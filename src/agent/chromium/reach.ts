// Connects to the running browser, also at the moment when one run ends and the next one starts.
import { within } from '../../base/wait.ts'
import type { ChromiumRun } from './process.ts'

/** Longest time between a Chromium's closing of its port and its exit. The next one starts after that. */
const LAST_BREATH_MS = 5_000

/** Calls `open` with the running browser. When it fails (`isRefusal`) because that browser is ending, calls it again with the next one. */
export async function reachBrowser<R extends Pick<ChromiumRun, 'exited'>, T>(
  browser: { run(): Promise<R> },
  open: (run: R) => Promise<T>,
  signal?: AbortSignal,
  isRefusal: (error: unknown) => boolean = () => true,
): Promise<T> {
  const run = await browser.run()
  return open(run).catch(async (refused: unknown) => {
    if (!isRefusal(refused)) throw refused
    await within('Chromium to end', LAST_BREATH_MS, run.exited, signal).catch(() => {
      throw refused
    })
    return open(await browser.run())
  })
}
