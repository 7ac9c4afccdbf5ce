// Hidden pages in which requests are made. They are created on demand, reused, and closed after a while without requests.
import { Notifier } from '../../base/notifier.ts'
import { WaitTimeout, within } from '../../base/wait.ts'
import type { CdpSession } from '../chromium/cdp.ts'
import { connectCdp, type CdpConnection } from '../chromium/cdp-socket.ts'
import type { Keeper } from '../chromium/keeper.ts'
import { reachBrowser } from '../chromium/reach.ts'

/** The most requests at once; others wait. Each has its own process in Chromium, of about 20 MB. */
export const MAX_AT_ONCE = 8

/** The hidden pages are closed after this time without a request. */
const IDLE_MS = 30_000

/** Creating a page takes 10-60 ms. On a machine that is starting browsers it takes seconds. */
const MAKE_MS = 30_000

/**
 * A page that appears in no window, no list of tabs and no client's list of pages. It has two debugging sessions, because both
 * pause a response, one after the other: first `network` sees it, then `body` takes the answer.
 */
export interface HiddenPage {
  connection: CdpConnection
  targetId: string
  network: CdpSession
  body: CdpSession
}

/** Chromium keeps this much of the beginning of a live answer (endless.ts): the bytes that arrive before the agent can ask for them. */
const BEGINNING_BYTES = 4 * 1024 * 1024

const REQUESTS = { urlPattern: '*', requestStage: 'Request' } as const
const RESPONSES = { urlPattern: '*', requestStage: 'Response' } as const

export class Targets {
  readonly #browser: Pick<Keeper, 'run'>
  readonly #freed = new Notifier()
  #connection: Promise<CdpConnection> | undefined
  #idle: HiddenPage[] = []
  #busy = 0
  #timer: NodeJS.Timeout | undefined

  constructor(browser: Pick<Keeper, 'run'>) {
    this.#browser = browser
  }

  /** Lends a page. Return it with {@link giveBack} or {@link discard}. */
  async take(signal: AbortSignal): Promise<HiddenPage> {
    while (this.#busy >= MAX_AT_ONCE) await this.#freed.next(signal)
    signal.throwIfAborted()
    this.#busy++
    clearTimeout(this.#timer)
    for (let page = this.#idle.pop(); page; page = this.#idle.pop()) if (isThere(page)) return page
    const made = this.#make()
    try {
      return await within('a hidden page', MAKE_MS, made, signal)
    } catch (error) {
      this.#free()
      made.then(
        (page) => close(page),
        () => {}, // already thrown below
      )
      throw error
    }
  }

  /** For a page whose request ended normally. */
  giveBack(page: HiddenPage): void {
    if (isThere(page)) this.#idle.push(page)
    this.#free()
  }

  /** For a page that may still be busy. */
  discard(page: HiddenPage): void {
    close(page)
    this.#free()
  }

  #free(): void {
    this.#busy--
    this.#freed.notify()
    if (this.#busy > 0) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#disconnect(), IDLE_MS).unref()
  }

  #disconnect(): void {
    this.#idle = []
    void this.#connection?.then((connection) => connection.close()).catch(() => {})
    this.#connection = undefined
  }

  #connect(): Promise<CdpConnection> {
    // A browser that does not answer hangs, but does not end. The next request tries again: the browser may answer by then.
    const isEnding = (error: unknown) => !(error instanceof WaitTimeout)
    const connecting = reachBrowser(this.#browser, ({ port, browserPath }) => connectCdp(port, browserPath), undefined, isEnding)
    this.#connection = connecting
    const forget = () => {
      if (this.#connection === connecting) this.#connection = undefined
    }
    connecting.then(({ ended }) => (ended.aborted ? forget() : ended.addEventListener('abort', forget))).catch(forget)
    return connecting
  }

  async #make(): Promise<HiddenPage> {
    const connection = await (this.#connection ?? this.#connect())
    const { targetId } = await connection.send('Target.createTarget', { url: 'about:blank', hidden: true })
    try {
      const [network, body] = [await connection.session(targetId), await connection.session(targetId)]
      // The session that enables interception first is the one closest to the network.
      await Promise.all([
        network.send('Fetch.enable', { patterns: [REQUESTS, RESPONSES], handleAuthRequests: true }),
        network.send('Network.enable', { maxTotalBufferSize: BEGINNING_BYTES, maxResourceBufferSize: BEGINNING_BYTES }),
        // A site's service worker could answer instead of the target.
        network.send('Network.setBypassServiceWorker', { bypass: true }),
      ])
      await body.send('Fetch.enable', { patterns: [RESPONSES] })
      return { connection, targetId, network, body }
    } catch (error) {
      connection.send('Target.closeTarget', { targetId }).catch(() => {}) // it closes with the connection at the latest
      throw error
    }
  }
}

const isThere = ({ network, body }: HiddenPage): boolean => !network.detached.aborted && !body.detached.aborted

function close({ connection, targetId, network, body }: HiddenPage): void {
  network.drop()
  body.drop()
  connection.send('Target.closeTarget', { targetId }).catch(() => {}) // it is closed already
}
