// Hidden pages for requests to be made in: made when needed, used again, and gone when nobody has asked for a while.
import { Bell } from '../../base/bell.ts'
import { within } from '../../base/wait.ts'
import type { Browser } from '../chromium/keeper.ts'
import { reachBrowser } from '../chromium/reach.ts'
import { connectCdp, type CdpConnection } from './connection.ts'

/** Requests at once; others wait their turn. Each has a process of its own in Chromium, of some 20 MB. */
export const MAX_AT_ONCE = 8

/** After so long without a request the hidden pages are given up. */
const IDLE_MS = 30_000

/** A page takes 10-60 ms; on a machine that is starting browsers, seconds. */
const MAKE_MS = 30_000

/**
 * A page that is in no window, in no list of tabs and in no client's list of pages. It has two debugging sessions, for
 * their stages of a request lie one behind the other: `network` sees first what comes from there, `body` takes the answer.
 */
export interface HiddenPage {
  connection: CdpConnection
  targetId: string
  network: string
  body: string
}

/** Of an answer that is followed as it comes (live.ts), Chromium keeps the beginning: what arrives before we can ask for it. */
const BEGINNING_BYTES = 4 * 1024 * 1024

const EVERYTHING = { urlPattern: '*' }

export class Targets {
  readonly #browser: Pick<Browser, 'run'>
  readonly #freed = new Bell()
  #connection: Promise<CdpConnection> | undefined
  #idle: HiddenPage[] = []
  #busy = 0
  #timer: NodeJS.Timeout | undefined

  constructor(browser: Pick<Browser, 'run'>) {
    this.#browser = browser
  }

  /** Lends a page; give it back by {@link giveBack} or {@link discard}. */
  async take(signal: AbortSignal): Promise<HiddenPage> {
    while (this.#busy >= MAX_AT_ONCE) await this.#freed.heard(signal)
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
        () => {}, // it is this very error
      )
      throw error
    }
  }

  /** For a page on which everything has ended as it should. */
  giveBack(page: HiddenPage): void {
    if (isThere(page)) this.#idle.push(page)
    this.#free()
  }

  /** For a page that may still be at something. */
  discard(page: HiddenPage): void {
    close(page)
    this.#free()
  }

  #free(): void {
    this.#busy--
    this.#freed.ring()
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
    const connecting = reachBrowser(this.#browser, ({ port, browserPath }) => connectCdp(port, browserPath))
    this.#connection = connecting
    const forget = () => {
      if (this.#connection === connecting) this.#connection = undefined
    }
    connecting.then((connection) => connection.ended.then(forget)).catch(forget)
    return connecting
  }

  async #make(): Promise<HiddenPage> {
    const connection = await (this.#connection ?? this.#connect())
    const { targetId } = await connection.send<{ targetId: string }>('Target.createTarget', { url: 'about:blank', hidden: true })
    try {
      const [network, body] = [await connection.attach(targetId), await connection.attach(targetId)]
      // The first that asks to intercept is the one next to the network.
      await Promise.all([
        connection.send(
          'Fetch.enable',
          { patterns: ['Request', 'Response'].map((requestStage) => ({ ...EVERYTHING, requestStage })), handleAuthRequests: true },
          network,
        ),
        connection.send('Network.enable', { maxTotalBufferSize: BEGINNING_BYTES, maxResourceBufferSize: BEGINNING_BYTES }, network),
        // What a page's own service worker would make up is not what the target answers.
        connection.send('Network.setBypassServiceWorker', { bypass: true }, network),
      ])
      await connection.send('Fetch.enable', { patterns: [{ ...EVERYTHING, requestStage: 'Response' }] }, body)
      return { connection, targetId, network, body }
    } catch (error) {
      connection.send('Target.closeTarget', { targetId }).catch(() => {}) // with the connection, at the latest
      throw error
    }
  }
}

const isThere = ({ connection, network, body }: HiddenPage): boolean => connection.has(network) && connection.has(body)

function close({ connection, targetId, network, body }: HiddenPage): void {
  connection.forget(network)
  connection.forget(body)
  connection.send('Target.closeTarget', { targetId }).catch(() => {}) // it is gone already
}
