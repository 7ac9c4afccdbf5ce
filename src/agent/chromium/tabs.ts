// The tabs of a lean browser, which does not save them itself: after a crash they are opened again.
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import type { ChromiumRun } from './process.ts'

/** Most tabs that are opened again, and their longest address. Pages can open any number. */
const MAX_TABS = 100
const MAX_URL = 2_048
/** The longest wait for them. A page whose server does not answer by then goes on loading. */
const OPEN_MS = 2_000

export class Tabs {
  /** The addresses of the pages of the last run, by target, in the order in which they were opened. */
  #urls = new Map<string, string>()

  /** Opens the tabs of the run before, if `restore`, and notes those of this run from now on. */
  async of(run: ChromiumRun, restore: boolean, log: Log): Promise<void> {
    const before = restore ? [...this.#urls.values()] : []
    const urls = (this.#urls = new Map())
    const note = ({ targetInfo: { targetId, type, url } }: { targetInfo: { targetId: string; type: string; url: string } }) => {
      if (type === 'page' && url.length <= MAX_URL && (urls.has(targetId) || urls.size < MAX_TABS)) urls.set(targetId, url)
    }
    run.pipe.on('Target.targetCreated', note)
    run.pipe.on('Target.targetInfoChanged', note)
    // When the browser ends, its pages are destroyed with it or not; what was open just before is what counts.
    run.pipe.on('Target.targetDestroyed', ({ targetId }) => void setTimeout(() => !run.pipe.ended.aborted && urls.delete(targetId), 100).unref())
    const [first, ...others] = before.filter((url) => url !== '' && url !== 'about:blank')
    if (first === undefined) return
    const open = async () => {
      for (const url of others) await run.pipe.send('Target.createTarget', { url })
      // The last one: Chromium answers only when the server does.
      await using page = await run.pipe.session(run.firstPage)
      await page.send('Page.navigate', { url: first })
    }
    await within('the tabs of the browser that ended', OPEN_MS, open()).catch((err: unknown) =>
      log.info({ err }, 'a tab that was opened again does not load yet'),
    )
  }
}
