// The tabs of a lean browser, which does not save them itself: after a crash, and in the full browser that replaces it, they are opened again.
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import type { ChromiumRun } from './process.ts'

/** Most tabs that are opened again, and their longest address. Pages can open any number. */
const MAX_TABS = 100
const MAX_URL = 2_048
/** When a browser ends by itself, its connection ends within this time after its pages. */
const ENDS_MS = 100
/** The longest wait for the tabs that are opened again. A page whose server does not answer by then goes on loading. */
const OPEN_MS = 2_000

/** Notes the addresses of a browser's tabs. */
export class Tabs {
  /** The addresses of the pages of the last run, by target, in the order in which they were opened. */
  #urls = new Map<string, string>()
  #closed = new Set<string>()
  /** Addresses that were opened again and are not those of their tabs yet: the browser may be replaced before that. */
  #opening = new Map<string, string>()

  /** The addresses of the open tabs, in the order in which they were opened. */
  get open(): string[] {
    return this.#addresses((target) => !this.#closed.has(target))
  }

  /** The same of a browser that has ended by itself: its last tabs may have been destroyed with it. */
  get last(): string[] {
    return this.#addresses(() => true)
  }

  #addresses(wanted: (target: string) => boolean): string[] {
    return [...this.#urls].flatMap(([target, noted]) => {
      const url = isPage(noted) ? noted : this.#opening.get(target)
      return url !== undefined && wanted(target) ? url : []
    })
  }

  /** Notes those of this run from now on. */
  follow(run: ChromiumRun): void {
    const urls = (this.#urls = new Map())
    const closed = (this.#closed = new Set())
    const opening = (this.#opening = new Map())
    const note = ({ targetInfo: { targetId, type, url } }: { targetInfo: { targetId: string; type: string; url: string } }) => {
      if (type === 'page' && url.length <= MAX_URL && (urls.has(targetId) || urls.size < MAX_TABS)) urls.set(targetId, url)
      if (isPage(url)) opening.delete(targetId)
    }
    run.pipe.on('Target.targetCreated', note)
    run.pipe.on('Target.targetInfoChanged', note)
    run.pipe.on('Target.targetDestroyed', ({ targetId }) => {
      closed.add(targetId)
      const forget = () => {
        if (run.pipe.ended.aborted) return
        urls.delete(targetId)
        closed.delete(targetId)
      }
      setTimeout(forget, ENDS_MS).unref()
    })
  }

  /** Opens the addresses in tabs of a browser that has just started. Never rejects. */
  async reopen(run: ChromiumRun, urls: readonly string[], log: Log): Promise<void> {
    const [first, ...others] = urls
    if (first === undefined) return
    this.#opening.set(run.firstPage, first)
    const open = async () => {
      for (const url of others) {
        const { targetId } = await run.pipe.send('Target.createTarget', { url })
        if (!isPage(this.#urls.get(targetId) ?? '')) this.#opening.set(targetId, url)
      }
      // The last one: Chromium answers only when the server does.
      await using page = await run.pipe.session(run.firstPage)
      await page.send('Page.navigate', { url: first })
    }
    await within('the tabs of the browser that ended', OPEN_MS, open()).catch((err: unknown) =>
      log.info({ err }, 'a tab that was opened again does not load yet'),
    )
  }
}

const isPage = (url: string): boolean => url !== '' && url !== 'about:blank'
