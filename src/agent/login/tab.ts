// One tab of a login: its sessions with Chromium (its own, and those of frames in other processes), its frames, dialogs, requests, and HTTP authentication.
import type { Log } from '../../base/log.ts'
import { resultWithin, WaitTimeout } from '../../base/wait.ts'
import { CdpGone, type Cdp, type CdpSession } from '../chromium/cdp.ts'
import type { Protocol } from '../chromium/cdp-protocol.ts'
import { MAX_FRAMES } from './contract.ts'
import { openWorld, script, WORLD, type World } from './world.ts'

/** Timeout for a command that Chromium or an idle page answers. */
const ANSWER_MS = 3_000
/** The same at the end, when nobody needs the answer. */
const LEAVE_MS = 1_000
/** Most frames in other processes that are read. */
const MAX_SESSIONS = 60
/** Most documents with a mask that are remembered: older ones are gone. */
const MAX_SHEETS = 500
/** Most documents that are known to come from their sites. A tab has at most some hundred frames at once. */
const MAX_DOCUMENTS = 1_000
/** Most requests that are counted at once. */
const MAX_REQUESTS = 500
/** Most messages of dialogs that are reported, and the length of one. */
const MAX_DIALOGS = 5
const MAX_DIALOG = 500
/** A request that takes longer is a stream, or waits for something: the page may still be quiet. */
const YOUNG_MS = 4_000
/** Kinds of requests that a page waits for. */
const WAITED_FOR = new Set(['Document', 'Script', 'XHR', 'Fetch'])

const PASSKEYS = script('passkeys')
const HEARD = script('heard')
/** Masks every field for text, also fields that a page creates later. */
const MASK = 'input, textarea, [contenteditable] { -webkit-text-security: disc !important }'

/** The present state of a frame. */
export interface FrameState {
  session: CdpSession
  id: string
  parent: string | undefined
  loader: string
  url: string
  /** The address that could not be loaded, when this is Chromium's error page. */
  unreachable: string | undefined
}

export class Tab {
  readonly targetId: string
  readonly session: CdpSession
  readonly #cdp: Cdp
  readonly #log: Log
  /** Sessions of frames in other processes, by their frames. */
  readonly #inside = new Map<string, CdpSession>()
  readonly #worlds = new Map<string, { loader: string; world: Promise<World> }>()
  /** Start of each request that has not ended. */
  readonly #requests = new Map<string, number>()
  readonly #scripts: { session: CdpSession; identifier: string }[] = []
  /** The style sheets that mask, by document. */
  readonly #sheets = new Map<string, { session: CdpSession; styleSheetId: string }>()
  #isMasking = false
  /** The loaders of documents that were requested after service workers were bypassed. */
  readonly #fromSites = new Set<string>()
  /** The pending request for the next document. */
  #next: string | undefined
  /** Number of documents of the tab itself. */
  documents = 0
  /** Chromium's error when the last document could not be loaded. */
  error: string | undefined
  /** Whether the last document was refused because it needs HTTP authentication. Browsers of logins have no dialog for that (their policy). */
  hasAskedPassword = false
  /** Messages of script dialogs since the last action. */
  dialogs: string[] = []

  private constructor(cdp: Cdp, session: CdpSession, log: Log) {
    this.#cdp = cdp
    this.session = session
    this.targetId = session.targetId
    this.#log = log
  }

  /** Attaches to a page. @throws as {@link Cdp.session} */
  static async open(cdp: Cdp, targetId: string, log: Log): Promise<Tab> {
    const session = await cdp.session(targetId, { limitMs: ANSWER_MS })
    const tab = new Tab(cdp, session, log)
    try {
      await tab.#begin(session)
    } catch (error) {
      session.detach().catch((err: unknown) => log.debug({ err }, 'a tab of a login was not left'))
      throw error
    }
    return tab
  }

  /** Whether its page answers. A page with an endless script does not, and accepts no other document either. */
  async answers(): Promise<boolean> {
    try {
      await this.session.send('Runtime.evaluate', { expression: '1' }, { limitMs: ANSWER_MS })
      return true
    } catch (error) {
      if (error instanceof WaitTimeout || error instanceof CdpGone) return false
      throw error
    }
  }

  get isGone(): boolean {
    return this.session.detached.aborted
  }

  async #begin(session: CdpSession): Promise<void> {
    const quietly = (work: Promise<unknown>) => void work.catch((err: unknown) => this.#log.debug({ err }, 'a page of a login did not take a command'))
    session.on('Page.javascriptDialogOpening', ({ type, message }) => {
      if (type !== 'beforeunload' && this.dialogs.length < MAX_DIALOGS) this.dialogs.push(String(message).slice(0, MAX_DIALOG))
      // Accepting continues: it leaves a page, or ends the user's session elsewhere. A prompt has no right answer.
      quietly(session.send('Page.handleJavaScriptDialog', { accept: type === 'beforeunload' || type === 'confirm' }, { limitMs: ANSWER_MS }))
    })
    session.on('Page.frameNavigated', ({ frame }) => {
      this.#worlds.delete(frame.id)
      if (frame.id !== this.targetId) return
      this.documents++
      this.#next = undefined
      if (frame.unreachableUrl === undefined) this.error = undefined
      if (this.#isMasking) quietly(this.#maskFrame(session, frame.id))
    })
    session.on('Page.frameDetached', ({ frameId }) => void this.#worlds.delete(frameId))
    let isPassingWorkersBy = false
    session.on('Network.requestWillBeSent', ({ requestId, loaderId, type, frameId }) => {
      if (type === 'Document' && isPassingWorkersBy) this.#isFromSite(loaderId)
      if (type === 'Document' && frameId === this.targetId) this.#next = requestId
      if (WAITED_FOR.has(type ?? '') && this.#requests.size < MAX_REQUESTS) this.#requests.set(requestId, performance.now())
    })
    session.on('Network.loadingFinished', ({ requestId }) => {
      this.#requests.delete(requestId)
      if (this.#next === requestId) this.#next = undefined
    })
    session.on('Network.loadingFailed', ({ requestId, type, errorText }) => {
      this.#requests.delete(requestId)
      if (this.#next === requestId) this.#next = undefined
      if (type === 'Document' && session === this.session) this.error = String(errorText).slice(0, 100)
    })
    session.on('Network.responseReceived', ({ type, frameId, response: { status, headers } }) => {
      if (type !== 'Document' || frameId !== this.targetId) return
      this.hasAskedPassword = status === 401 && Object.keys(headers).some((name) => name.toLowerCase() === 'www-authenticate')
    })
    session.on('Target.attachedToTarget', (event) => this.#attached(event, session))
    const options = { limitMs: ANSWER_MS }
    const scripts = [
      { source: PASSKEYS, runImmediately: true },
      { source: HEARD, worldName: WORLD, runImmediately: true },
    ].map(async (params) => {
      const { identifier } = await session.send('Page.addScriptToEvaluateOnNewDocument', params, options)
      this.#scripts.push({ session, identifier })
    })
    await Promise.all([
      session.send('Page.enable', {}, options),
      session.send('Network.enable', { maxTotalBufferSize: 0, maxResourceBufferSize: 0 }, options),
      // A service worker in the profile, installed earlier by an attacker's proxy, could answer in place of the site: it would get the typed values.
      session.send('Network.setBypassServiceWorker', { bypass: true }, options).then(() => (isPassingWorkersBy = true)),
      session.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true, filter: [{ type: 'iframe' }] }, options),
      ...scripts,
    ])
  }

  #attached({ sessionId, targetInfo }: Protocol.Target.AttachedToTargetEvent, by: CdpSession): void {
    const session = this.#cdp.adopt(String(sessionId), String(targetInfo.targetId).slice(0, 64), by)
    const leave = () => session.detach().catch((err: unknown) => this.#log.debug({ err }, 'a frame of a login was not left'))
    if (this.#inside.size >= MAX_SESSIONS) return void leave()
    const frame = session.targetId
    this.#inside.set(frame, session)
    session.detached.addEventListener(
      'abort',
      () => {
        if (this.#inside.get(frame) === session) this.#inside.delete(frame)
        this.#worlds.delete(frame)
      },
      { once: true },
    )
    this.#begin(session).catch((err: unknown) => {
      if (!(err instanceof CdpGone)) this.#log.debug({ err }, 'a frame of a login was not looked into')
    })
  }

  #isFromSite(loader: string): void {
    if (this.#fromSites.size >= MAX_DOCUMENTS) this.#fromSites.delete(this.#fromSites.values().next().value!)
    this.#fromSites.add(loader)
  }

  /** Whether a service worker may have made the document of a frame: a popup requests its first one before anybody is attached to it. */
  async isByWorker(frame: FrameState): Promise<boolean> {
    return !this.#fromSites.has(frame.loader) && (await (await this.world(frame)).call('isByWorker', [])) === true
  }

  /** Loads the page again from its site. */
  async reload(): Promise<void> {
    await this.session.send('Page.reload', { ignoreCache: true }, { limitMs: ANSWER_MS })
  }

  /** Whether a recent request has not ended. */
  get isLoading(): boolean {
    const now = performance.now()
    for (const [id, at] of this.#requests) if (now - at > YOUNG_MS) this.#requests.delete(id)
    return this.#requests.size > 0
  }

  /** Whether the page has requested another document that has not arrived yet. */
  get isLeaving(): boolean {
    return this.isLoading && this.#next !== undefined && this.#requests.has(this.#next)
  }

  /** The frames, the page's own first, each after its parent. Without frames of a process that does not answer. @throws when the page's own does not */
  async frames(): Promise<FrameState[]> {
    const tree = async (session: CdpSession) => ({ session, ...(await session.send('Page.getFrameTree', {}, { limitMs: ANSWER_MS })) })
    const others = [...this.#inside.values()].map((session) => tree(session).catch(() => undefined)) // it hangs, or has just ended
    const [own, ...inside] = await Promise.all([tree(this.session), ...others])
    const found: FrameState[] = []
    const collect = (session: CdpSession, { frame, childFrames = [] }: Protocol.Page.FrameTree) => {
      if (found.length >= 10 * MAX_FRAMES) return
      found.push({ session, id: frame.id, parent: frame.parentId, loader: frame.loaderId, url: frame.url, unreachable: frame.unreachableUrl })
      for (const child of childFrames) collect(session, child)
    }
    collect(own.session, own.frameTree)
    for (const one of inside) if (one) collect(one.session, one.frameTree)
    // Both processes may report a frame that has moved from one to the other.
    const byId = new Map(found.map((frame) => [frame.id, frame]))
    const sorted: FrameState[] = []
    const seen = new Set<string>()
    const add = (frame: FrameState | undefined, depth: number): boolean => {
      if (!frame || depth > MAX_FRAMES) return false
      if (seen.has(frame.id)) return true
      if (frame.id !== this.targetId && !add(byId.get(frame.parent ?? ''), depth + 1)) return false
      seen.add(frame.id)
      sorted.push(frame)
      return true
    }
    for (const frame of byId.values()) add(frame, 0)
    return sorted.slice(0, MAX_FRAMES)
  }

  /** The hosts of those frames that have their own target, including the page, from the browser process: no page can fake them. */
  async hosts(frames: readonly string[]): Promise<string[]> {
    const { targetInfos } = await this.#cdp.send('Target.getTargets', { filter: [{ type: 'page' }, { type: 'iframe' }] }, { limitMs: ANSWER_MS })
    const urls = targetInfos.filter(({ targetId }) => frames.includes(targetId)).map(({ url }) => url)
    if (!targetInfos.some(({ targetId }) => targetId === this.targetId)) throw new CdpGone('the tab has closed')
    return urls.map((url) => (URL.canParse(url) ? new URL(url).hostname.slice(0, 253) : ''))
  }

  /** The world of a frame's present document. @throws DocumentGone; WaitTimeout */
  world({ session, id, loader }: FrameState): Promise<World> {
    const known = this.#worlds.get(id)
    if (known?.loader === loader) return known.world
    const world = openWorld(session, id)
    this.#worlds.set(id, { loader, world })
    world.catch(() => {
      if (this.#worlds.get(id)?.world === world) this.#worlds.delete(id)
    })
    return world
  }

  /** Masks all text in fields of this tab in pictures from now on. Resolves when this frame is masked. */
  async mask(frame: Pick<FrameState, 'session' | 'id'>): Promise<void> {
    this.#isMasking = true
    await this.#maskFrame(frame.session, frame.id)
  }

  async #maskFrame(session: CdpSession, frameId: string): Promise<void> {
    const { loaderId } = await this.#frameOf(session, frameId)
    const key = `${frameId} ${loaderId}`
    if (this.#sheets.has(key)) return
    const options = { limitMs: ANSWER_MS }
    await session.send('DOM.enable', {}, options)
    await session.send('CSS.enable', {}, options)
    const { styleSheetId } = await session.send('CSS.createStyleSheet', { frameId, force: true }, options)
    await session.send('CSS.setStyleSheetText', { styleSheetId, text: MASK }, options)
    if (this.#sheets.size >= MAX_SHEETS) this.#sheets.delete(this.#sheets.keys().next().value!)
    this.#sheets.set(key, { session, styleSheetId })
  }

  async #frameOf(session: CdpSession, frameId: string): Promise<Pick<Protocol.Page.Frame, 'loaderId'>> {
    const { frameTree } = await session.send('Page.getFrameTree', {}, { limitMs: ANSWER_MS })
    const find = ({ frame, childFrames = [] }: Protocol.Page.FrameTree): Protocol.Page.Frame | undefined =>
      frame.id === frameId ? frame : childFrames.map(find).find((one) => one !== undefined)
    const frame = find(frameTree)
    if (!frame) throw new CdpGone('the frame is gone')
    return frame
  }

  /** Leaves the page as if nobody had attached to it. Bounded: a page that hangs is left without its answer. */
  async end(): Promise<void> {
    this.#isMasking = false
    const options = { limitMs: LEAVE_MS }
    const leave = async (frame: FrameState) => (await this.world(frame)).call('leave', [], LEAVE_MS)
    const undo = async () => {
      const scripts = this.#scripts.map(({ session, identifier }) => session.send('Page.removeScriptToEvaluateOnNewDocument', { identifier }, options))
      const sheets = [...this.#sheets.values()].map(({ session, styleSheetId }) => session.send('CSS.setStyleSheetText', { styleSheetId, text: '' }, options))
      await Promise.allSettled([...scripts, ...sheets])
      await Promise.allSettled((await this.frames()).map(leave))
    }
    await resultWithin(
      2 * LEAVE_MS,
      undo().catch(() => {}),
      this.session.detached,
    ) // its frames cannot be read: it hangs, or has closed
    await resultWithin(ANSWER_MS, this.session.detach())
  }
}
