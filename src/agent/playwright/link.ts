// The worker's connection to the browser. It stays open for a while after a run, and changes nothing for other clients.
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { chromium, type Browser, type BrowserContext, type ConnectOverCDPTransport, type Dialog, type Page } from 'playwright-core'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'

/** A page that does not answer within this time is busy, or Playwright lost it while connecting. */
const ANSWER_MS = 300

/** If a page fails to load just while Playwright connects, Playwright loses it: every call on the page hangs. A new connection helps. */
const ATTEMPTS = 3

/** Playwright keeps its files (downloads that code waits for, traces) here until the connection ends. On disk, because /tmp is in memory. */
const ARTIFACTS_DIR = '/home/kernel/.cache/cob-playwright'

/** The agent's own commands have ids from here on, so that they cannot collide with Playwright's. */
const FIRST_OWN_ID = 1_500_000_000

interface CdpMessage {
  id?: number
  [field: string]: unknown
}

/** The commands that Playwright has sent to the browser. */
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
  #hasCrashedPage = false
  readonly #hold = (dialog: Dialog): void => void this.#dialogs.push(dialog)

  private constructor(socket: WebSocket, transport: ConnectOverCDPTransport, traffic: Traffic, browser: Browser) {
    this.#socket = socket
    this.#traffic = traffic
    this.#transport = transport
    this.browser = browser
    const context = browser.contexts()[0]
    const watchCrash = (page: Page) => void page.once('crash', () => (this.#hasCrashedPage = true))
    context?.pages().forEach(watchCrash)
    context?.on('page', watchCrash)
  }

  /**
   * Connects to the debugging socket at `url`. This takes 15 ms, and 5 ms for each further tab. A page that waits for its server
   * delays it, because Chromium tells a new client nothing about the page until the server answers.
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
      // Deliver one message per turn of the event loop. Playwright expects to finish each before the next, and loses pages otherwise.
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
    socket.on('error', () => {}) // 'close' follows and is handled
    mkdirSync(ARTIFACTS_DIR, { recursive: true })
    // With its defaults, Playwright would redirect downloads and override the focus and media of pages, for all clients.
    const browser = await chromium.connectOverCDP(transport, { noDefaults: true, timeout: 0, artifactsDir: ARTIFACTS_DIR })
    return new Link(socket, transport, traffic, browser)
  }

  /** The number of commands sent so far; `pending` of them have no answer yet. */
  get sent(): number {
    return this.#traffic.sent
  }
  get pending(): number {
    return this.#traffic.unanswered.size
  }

  #pages(): Page[] {
    return this.browser.contexts()[0]?.pages() ?? []
  }

  /**
   * Whether the next run can use it. Playwright refuses every call on a page whose renderer has crashed, also goto(); for a new connection Chromium starts another
   * renderer, with an empty document.
   */
  get isUsable(): boolean {
    return this.browser.isConnected() && !this.#hasCrashedPage
  }

  /** The default context and its frontmost page. Opens a page if there is none. */
  async front(): Promise<{ context: BrowserContext; page: Page }> {
    const context = this.browser.contexts()[0]!
    context.off('dialog', this.#hold)
    for (const dialog of this.#dialogs.splice(0)) await dialog.dismiss().catch(() => {}) // another client has answered it
    const pages = this.#pages()
    const ranks = pages.length > 1 ? (await Promise.all(pages.map(rank))).map((each) => each ?? 0) : [0]
    const byRank = pages.map((page, index) => ({ page, rank: ranks[index]! })).toSorted((a, b) => b.rank - a.rank)
    const page = (await firstTab(byRank.map((each) => each.page))) ?? (await context.newPage())
    this.#watchForDownloads(page, context)
    return { context, page }
  }

  /**
   * After the end of a run's code, leaves dialogs open for other clients of the browser; Playwright would dismiss them. They are dismissed when the next run
   * begins. A new connection could not do that, because Chromium does not report an open dialog to it.
   */
  rest(): void {
    this.browser.contexts()[0]?.on('dialog', this.#hold)
  }

  /** Whether a dialog has opened since the last run. */
  get holdsDialog(): boolean {
    return this.#dialogs.length > 0
  }

  /** Ends the connection, and with it listeners, routes, emulation and contexts that code has created. The browser keeps running. */
  async close(): Promise<void> {
    await this.browser.close().catch(() => {}) // it is closed already
    this.#socket.terminate()
    rmSync(ARTIFACTS_DIR, { recursive: true, force: true })
  }

  /**
   * Playwright's handling of downloads starts with the first listener for them, and ends with the connection. Under it the browser
   * gives files names that only Playwright knows. Without a listener, files must go to the browser's own download folder.
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

/** Called when code begins to listen for downloads. Belongs to the current connection. */
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

/** The first of these pages that is a tab. DevTools, a print preview and the popup of an extension are pages, too, and have the focus while they are open. */
async function firstTab(pages: readonly Page[]): Promise<Page | undefined> {
  for (const page of pages) if (!OF_BROWSER.test(page.url()) || (!page.url().startsWith('devtools:') && (await isInWindow(page)))) return page
  return undefined
}

/** Addresses of the browser's own pages and of extensions. Other pages are tabs. DevTools may have its own window. */
const OF_BROWSER = /^(devtools|chrome|chrome-untrusted|chrome-extension):/

/** Whether a page is a tab of a window. */
const isInWindow = (page: Page): Promise<boolean> =>
  within('the window of a page', ANSWER_MS, windowOf(page)).then(
    () => true,
    () => false, // "Browser window not found"
  )

async function windowOf(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page)
  try {
    await session.send('Browser.getWindowForTarget')
  } finally {
    await session.detach()
  }
}

/** 2 for a page with focus, 1 for a visible one, 0 for a hidden one (which may believe that it has focus); undefined without an answer. */
const rank = (page: Page): Promise<number | undefined> =>
  within('a page', ANSWER_MS, page.evaluate<number>('document.visibilityState !== "visible" ? 0 : document.hasFocus() ? 2 : 1')).catch(() => undefined)
