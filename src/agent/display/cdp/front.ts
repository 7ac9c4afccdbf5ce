// The page in front of a browser without a display: the one that input goes to and that the picture shows.
import { Mutex } from '../../../base/mutex.ts'
import type { Cdp, CdpSession } from '../../chromium/cdp.ts'

/** The browser as this display uses it: its present run. The keeper starts it again after a crash. */
export interface Browser {
  run(): Promise<{ pipe: Cdp; firstPage: string }>
}

/** How many pages may close one after the other while one is used. */
const MOST_CLOSED = 10

/** What is kept of one run. */
interface Pages {
  pipe: Cdp
  /** In the order in which they came to the front; the last one is in front. */
  order: string[]
  session: CdpSession | undefined
}

export class FrontPage {
  readonly #browser: Browser
  readonly #listeners = new Set<() => void>()
  /** Callers at the same time get the same session. */
  readonly #turns = new Mutex()
  #pages: { pipe: Cdp; all: Promise<Pages> } | undefined
  /** Settles when a page that is being opened is known to be hidden. */
  #opening: Promise<unknown> = Promise.resolve()

  constructor(browser: Browser) {
    this.#browser = browser
  }

  /** A session with the page in front, which stays open. @throws CdpGone when the browser has no page */
  session(): Promise<CdpSession> {
    return this.#turns.run(async () => {
      const pages = await this.#current()
      await this.#opening
      const front = pages.order.at(-1) ?? (await this.#browser.run()).firstPage
      if (pages.session?.targetId === front && !pages.session.detached.aborted) return pages.session
      pages.session?.detach().catch(() => {}) // its page is gone
      pages.session = await pages.pipe.session(front)
      return pages.session
    })
  }

  /**
   * Runs `work` with the page in front, and again with the next one if that page is closed meanwhile: a client's close has ended before its event is here.
   * @throws as {@link FrontPage.session} and as `work` for a page that is open
   */
  async use<T>(work: (page: CdpSession) => Promise<T>): Promise<T> {
    for (let closed = 0; ; closed++) {
      const { order } = await this.#current()
      try {
        return await work(await this.session())
      } catch (error) {
        if (closed === MOST_CLOSED || order.length === 0 || (await this.isOpen(order.at(-1)!))) throw error
      }
    }
  }

  /** Whether the browser still has this page. If not, it is none of {@link FrontPage.all} any more. */
  async isOpen(target: string): Promise<boolean> {
    const pages = await this.#current()
    const { targetInfos } = await pages.pipe.send('Target.getTargets', {})
    const isOpen = targetInfos.some(({ targetId }) => targetId === target)
    if (!isOpen) pages.order = pages.order.filter((each) => each !== target)
    return isOpen
  }

  /** The connection to the present run, and its pages. */
  async all(): Promise<{ pipe: Cdp; targets: readonly string[] }> {
    const { pipe, order } = await this.#current()
    return { pipe, targets: order }
  }

  /** Opens a page that never comes to the front. Chromium announces it before it answers, so until then nothing is sent to the page in front. */
  async hide(open: (pipe: Cdp) => Promise<string>): Promise<{ pipe: Cdp; targetId: string }> {
    const pages = await this.#current()
    const opened = open(pages.pipe).then((targetId) => {
      pages.order = pages.order.filter((each) => each !== targetId)
      this.#tell()
      return targetId
    })
    this.#opening = opened.catch(() => {}) // its caller gets the error
    return { pipe: pages.pipe, targetId: await opened }
  }

  /** Calls `listener` when another page comes to the front, or the browser has started again. The returned function stops this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async #current(): Promise<Pages> {
    const { pipe, firstPage } = await this.#browser.run()
    if (this.#pages?.pipe === pipe) return this.#pages.all
    const all = this.#watch(pipe, firstPage)
    this.#pages = { pipe, all }
    // The next caller tries again.
    all.catch(() => {
      if (this.#pages?.all === all) this.#pages = undefined
    })
    return all
  }

  async #watch(pipe: Cdp, firstPage: string): Promise<Pages> {
    const pages: Pages = { pipe, order: [], session: undefined }
    const created: string[] = []
    let isListed = false
    pipe.on('Target.targetCreated', ({ targetInfo: { targetId, type } }) => {
      if (type !== 'page' || pages.order.includes(targetId)) return
      if (isListed) this.#toFront(pages, targetId)
      else created.push(targetId)
    })
    pipe.on('Target.targetDestroyed', ({ targetId }) => {
      const wasFront = pages.order.at(-1) === targetId
      pages.order = pages.order.filter((each) => each !== targetId)
      if (wasFront) this.#tell()
    })
    const { targetInfos } = await pipe.send('Target.getTargets', {})
    const before = targetInfos.filter(({ type }) => type === 'page').map(({ targetId }) => targetId)
    pages.order = [...before.filter((each) => each !== firstPage), firstPage, ...created.filter((each) => !before.includes(each))]
    isListed = true
    await pipe.send('Target.setDiscoverTargets', { discover: true, filter: [{ type: 'page' }, { type: 'other' }] })
    this.#tell()
    return pages
  }

  #toFront(pages: Pages, targetId: string): void {
    pages.order = [...pages.order.filter((each) => each !== targetId), targetId]
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}
