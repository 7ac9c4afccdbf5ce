// The worker's connection to the browser: there for a run and a while after it, with nothing changed for others.
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { chromium, type Browser, type BrowserContext, type ConnectOverCDPTransport, type Dialog, type Page } from 'playwright-core'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'

/** A page that does not answer within this time is busy, or was lost on connecting. */
const ANSWER_MS = 300

/** Playwright loses a page whose loading fails just while it connects: all it is asked then waits for ever. Asking anew helps. */
const ATTEMPTS = 3

/** Where Playwright keeps what it makes for a run (downloads that are waited for, traces), until the connection ends. On disk, for /tmp is memory. */
const ARTIFACTS_DIR = '/home/kernel/.cache/cob-playwright'

/** Ids of commands of our own, which Playwright does not reach. */
const FIRST_OWN_ID = 1_500_000_000

interface CdpMessage {
  id?: number
  [field: string]: unknown
}

/** What Playwright has asked of the browser. */
interface Traffic {
  sent: number
  unanswered: Set<number | undefined>
}

export class Link {
  readonly #socket: WebSocket
  readonly #transport: ConnectOverCDPTransport
  readonly browser: Browser
  readonly #traffic: Traffic
  #lastId = FIRST_OWN_ID
  #hasDownloads = false
  #dialogs: Dialog[] = []
  readonly #hold = (dialog: Dialog): void => void this.#dialogs.push(dialog)

  private constructor(socket: WebSocket, transport: ConnectOverCDPTransport, traffic: Traffic, browser: Browser) {
    this.#socket = socket
    this.#traffic = traffic
    this.#transport = transport
    this.browser = browser
  }

  /**
   * Connects to the debugging socket at `url`; it takes 15 ms, and 5 for each further tab. A page that waits for its server
   * holds it up, for Chromium tells a new client nothing of it until then.
   * @throws WaitTimeout after `ms`
   */
  static async open(url: string, ms: number): Promise<Link> {
    for (let attempt = 1; ; attempt++) {
      const link = await Link.#try(url, ms)
      if (attempt === ATTEMPTS || !(await Promise.all(link.#pages().map(rank))).includes(undefined)) return link
      await link.close()
    }
  }

  static async #try(url: string, ms: number): Promise<Link> {
    const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: 0 })
    const traffic: Traffic = { sent: 0, unanswered: new Set() }
    const transport: ConnectOverCDPTransport = {
      send: (message) => {
        traffic.sent++
        traffic.unanswered.add((message as CdpMessage).id)
        socket.send(JSON.stringify(message))
      },
      close: () => socket.terminate(),
    }
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as CdpMessage
      if (message.id !== undefined) traffic.unanswered.delete(message.id)
      // One a turn: Playwright counts on being done with each before it hears of the next, and loses pages otherwise.
      if ((message.id ?? 0) < FIRST_OWN_ID) setImmediate(() => transport.onmessage?.(message))
    })
    socket.on('close', () => transport.onclose?.())
    try {
      return await within('the browser', ms, Link.#connect(socket, transport, traffic))
    } catch (error) {
      socket.on('error', () => {}).terminate()
      throw error
    }
  }

  static async #connect(socket: WebSocket, transport: ConnectOverCDPTransport, traffic: Traffic): Promise<Link> {
    await once(socket, 'open')
    socket.on('error', () => {}) // a close follows
    mkdirSync(ARTIFACTS_DIR, { recursive: true })
    // Without the defaults, downloads go where the browser puts them, and pages have the focus and the media that they have.
    const browser = await chromium.connectOverCDP(transport, { noDefaults: true, timeout: 0, artifactsDir: ARTIFACTS_DIR })
    return new Link(socket, transport, traffic, browser)
  }

  /** Commands sent so far, and those of them that are not answered yet. */
  get sent(): number {
    return this.#traffic.sent
  }
  get pending(): number {
    return this.#traffic.unanswered.size
  }

  #pages(): Page[] {
    return this.browser.contexts()[0]?.pages() ?? []
  }

  get isOpen(): boolean {
    return this.browser.isConnected()
  }

  /** The default context, and its page in front; a new one when it has none. */
  async front(): Promise<{ context: BrowserContext; page: Page }> {
    const context = this.browser.contexts()[0]!
    context.off('dialog', this.#hold)
    for (const dialog of this.#dialogs.splice(0)) await dialog.dismiss().catch(() => {}) // somebody has answered it
    const pages = this.#pages()
    const ranks = pages.length > 1 ? (await Promise.all(pages.map(rank))).map((each) => each ?? 0) : [0]
    const page = pages[ranks.indexOf(Math.max(...ranks))] ?? (await context.newPage())
    this.#watchForDownloads(page, context)
    return { context, page }
  }

  /**
   * Between runs a dialog that opens stays open, for whoever works the browser by other means; Playwright would dismiss it.
   * That is done when the next run begins. (A client that comes later could not: Chromium does not tell it of the dialog.)
   */
  rest(): void {
    this.browser.contexts()[0]?.on('dialog', this.#hold)
  }

  /** Whether a dialog has opened since the last run. */
  get holdsDialog(): boolean {
    return this.#dialogs.length > 0
  }

  /** Ends the connection: with it go listeners, routes, emulation and contexts that code has made. The browser stays. */
  async close(): Promise<void> {
    await this.browser.close().catch(() => {}) // it has gone by itself
    this.#socket.terminate()
    rmSync(ARTIFACTS_DIR, { recursive: true, force: true })
  }

  /**
   * Who waits for a download wants to have it; all others find it in the browser's own folder. So Playwright's way, in which
   * the browser gives files names that only Playwright knows, begins with the first listener, and ends with the connection.
   */
  #watchForDownloads(page: Page, context: BrowserContext): void {
    const begin = () => {
      if (this.#hasDownloads) return
      this.#hasDownloads = true
      this.#transport.send({
        id: ++this.#lastId,
        method: 'Browser.setDownloadBehavior',
        params: { behavior: 'allowAndName', downloadPath: ARTIFACTS_DIR, eventsEnabled: true },
      })
    }
    downloadsWanted = begin
    for (const object of [page, context]) listenForListeners(Object.getPrototypeOf(object) as object)
  }
}

/** Called when code begins to listen for downloads; of the connection that there is. */
let downloadsWanted: () => void = () => {}
const LISTENS = ['on', 'once', 'addListener', 'prependListener', 'waitForEvent']
const watched = new WeakSet<object>()

function listenForListeners(prototype: object): void {
  if (watched.has(prototype)) return
  watched.add(prototype)
  for (const name of LISTENS) {
    const original = Reflect.get(prototype, name) as ((this: unknown, event: unknown, ...rest: unknown[]) => unknown) | undefined
    if (!original) continue
    Reflect.set(prototype, name, function (this: unknown, event: unknown, ...rest: unknown[]) {
      if (event === 'download') downloadsWanted()
      return original.call(this, event, ...rest)
    })
  }
}

/** How much a page is in front: 2 with the focus, 1 to be seen, 0 behind (and it may think that it has the focus); undefined when it does not answer. */
const rank = (page: Page): Promise<number | undefined> =>
  within('a page', ANSWER_MS, page.evaluate<number>('document.visibilityState !== "visible" ? 0 : document.hasFocus() ? 2 : 1')).catch(() => undefined)
