// Reaching the browser that runs, also in the moment in which it ends and the next one is started.
import { within } from '../../base/wait.ts'
import type { Browser } from './keeper.ts'
import type { ChromiumRun } from './process.ts'

/** Between closing its port and its last breath a Chromium that ends takes this long at most; the next one is behind it. */
const LAST_BREATH_MS = 5_000

/** `open`s the browser; when that fails (with a `refusal`) because the browser is just ending, the one that is started after it. */
export async function reachBrowser<T>(
  browser: Pick<Browser, 'run'>,
  open: (run: ChromiumRun) => Promise<T>,
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
