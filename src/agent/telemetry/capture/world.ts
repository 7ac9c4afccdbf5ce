// Our own world in each document of a target: its scripts (in-page/) have the page's document and none of its JavaScript, and the page sees neither them nor
// the function by which they send messages. Works without the Runtime domain, which a page could detect.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { resultWithin } from '../../../base/wait.ts'
import { FIELD_PARTS, FIELD_WORDS } from '../../../base/redact/names.ts'
import { CdpGone, CdpRefusal, type CdpSession } from '../../chromium/cdp.ts'
import type { WatchedTarget } from './collector.ts'
import { DOCUMENT_AGAIN_MS, DOCUMENT_MS, MAX_ASKED, MAX_FRAMES, MAX_SAID, PREPARED_AT_ONCE, SHOWN_MS, WORLD_STOP_MS } from '../limits.ts'

/** The scripts that collectors can use. */
export type Part = 'passwords' | 'interaction'
/** A script's message: only its length is checked so far. */
export type Said = Record<string, unknown>
export type Hear = (said: Said, frameId: string) => void

/** The function that the scripts call; it is also a part of their own names. A page cannot guess it, so no element of a page can have it as its id. */
const BINDING = `cob${randomBytes(12).toString('hex')}`
const WORLD = 'cob-telemetry'

/** A script with the names of secret fields in it. */
export const inPage = (name: string): string =>
  readFileSync(join(import.meta.dirname, 'in-page', `${name}.js`), 'utf8')
    .replaceAll('FIELD_PARTS', FIELD_PARTS.replaceAll(' ', '|'))
    .replaceAll('FIELD_WORDS', FIELD_WORDS)
const script = (name: string): string => inPage(name).replaceAll('BINDING', BINDING)
const BASE = script('tell') + script('password-like')
const SOURCES: Record<Part, string> = { passwords: BASE + script('passwords'), interaction: BASE + script('interaction') }

const worlds = new WeakMap<CdpSession, World>()

/** The world of a target. All collectors share it. */
export function worldOf({ session }: Pick<WatchedTarget, 'session'>): World {
  let world = worlds.get(session)
  if (!world) worlds.set(session, (world = new World(session)))
  return world
}

interface User {
  hearers: Map<Hear, (() => void) | undefined>
  identifier: Promise<string>
}

export class World {
  readonly #session: CdpSession
  readonly #users = new Map<Part, User>()
  /** The frame of each world, by the number of its execution context. */
  readonly #frames = new Map<number, string>()
  #unlisten: (() => void)[] = []
  /** Frames whose document has to be prepared. */
  readonly #waiting = new Set<string>()
  /** Frames whose document is being prepared; another object stands for another document. */
  readonly #arming = new Map<string, object>()
  #busy = 0
  /** Frames whose document did not answer, until it answers or ends. */
  readonly #late = new Map<string, NodeJS.Timeout | undefined>()
  #isTreeLate = false
  #isOverfull = false

  constructor(session: CdpSession) {
    this.#session = session
  }

  /**
   * Runs a script in each document, from its beginning. `lost` is called for each frame above the limit. The returned function stops this.
   * @throws as {@link CdpSession.send}
   */
  async use(part: Part, hear: Hear, lost?: () => void): Promise<() => Promise<void>> {
    const users = this.#users
    let user = users.get(part)
    if (!user) {
      if (users.size === 0) this.#listen()
      user = { hearers: new Map(), identifier: this.#begin(part) }
      users.set(part, user)
    }
    const mine = user
    mine.hearers.set(hear, lost)
    const stopHearing = () => {
      mine.hearers.delete(hear)
      if (mine.hearers.size > 0 || users.get(part) !== mine) return false
      users.delete(part)
      return true
    }
    try {
      const identifier = await mine.identifier
      return async () => {
        if (stopHearing()) await this.#end(part, identifier)
      }
    } catch (error) {
      if (stopHearing() && users.size === 0) this.#stopListening()
      throw error
    }
  }

  /** Number of documents that {@link showsSecret} asks. */
  get size(): number {
    return this.#frames.size
  }

  /** Whether there are documents without working scripts: they did not answer in time, or are too many. */
  get isBehind(): boolean {
    return this.#late.size > 0 || this.#isTreeLate || this.#isOverfull
  }

  /** Whether a secret is visible in one of its documents; true when one of them does not answer, or there are too many to ask. */
  async showsSecret(): Promise<boolean> {
    // A document that cannot be asked yet may show one.
    if (this.size > MAX_ASKED || this.isBehind || this.#waiting.size > 0 || this.#busy > 0) return true
    const isShown = `globalThis.${BINDING}Parts?.passwordLike.isShown()`
    const asked = [...this.#frames.keys()].map((context) => this.#evaluate(context, isShown, SHOWN_MS).catch(() => true))
    const answers = await resultWithin(SHOWN_MS, Promise.all(asked))
    return answers?.some((answer) => answer !== false) ?? true
  }

  /** Adds the function to the world of a frame's document. */
  async #arm(frameId: string): Promise<void> {
    const session = this.#session
    const { executionContextId } = await session.send('Page.createIsolatedWorld', { frameId, worldName: WORLD }, { limitMs: DOCUMENT_MS })
    if (this.#frames.has(executionContextId) || this.#users.size === 0) return
    this.#forget(frameId)
    if (this.#frames.size >= MAX_FRAMES) return this.#lose()
    this.#frames.set(executionContextId, frameId)
    try {
      await session.send('Runtime.addBinding', { name: BINDING, executionContextId }, { limitMs: DOCUMENT_MS })
      await this.#evaluate(executionContextId, `globalThis.${BINDING}Parts?.ready()`, DOCUMENT_MS)
    } catch (error) {
      this.#frames.delete(executionContextId)
      throw error
    }
  }

  #forget(frameId: string): void {
    for (const [context, frame] of this.#frames) if (frame === frameId) this.#frames.delete(context)
  }

  #lose(): void {
    this.#isOverfull = true
    for (const { hearers } of this.#users.values()) for (const lost of hearers.values()) lost?.()
  }

  async #evaluate(contextId: number, expression: string, limitMs: number): Promise<unknown> {
    return (await this.#session.send('Runtime.evaluate', { expression, contextId, returnByValue: true }, { limitMs })).result.value
  }

  #armSoon(frameId: unknown): void {
    if (typeof frameId !== 'string') return
    this.#leave(frameId)
    const frames = this.#frames
    if (frames.size + this.#waiting.size + this.#late.size >= MAX_FRAMES && ![...frames.values()].includes(frameId)) return this.#lose()
    this.#waiting.add(frameId)
    this.#armNext()
  }

  /** The document of a frame has ended: stops all attempts with it. */
  #leave(frameId: string): void {
    this.#waiting.delete(frameId)
    this.#arming.delete(frameId)
    clearTimeout(this.#late.get(frameId))
    this.#late.delete(frameId)
  }

  #armNext(): void {
    for (const frameId of this.#waiting) {
      if (this.#busy >= PREPARED_AT_ONCE) return
      this.#waiting.delete(frameId)
      this.#busy++
      void this.#armOne(frameId).finally(() => {
        this.#busy--
        this.#armNext()
      })
    }
  }

  async #armOne(frameId: string): Promise<void> {
    const document = {}
    this.#arming.set(frameId, document)
    const isCurrent = () => this.#arming.get(frameId) === document
    try {
      await this.#arm(frameId)
      if (isCurrent()) this.#leave(frameId)
    } catch (error) {
      if (!isCurrent()) return
      this.#leave(frameId)
      // The frame has ended, or has another document, which has its own event.
      if (error instanceof CdpGone || error instanceof CdpRefusal || this.#users.size === 0) return
      // A dialog is open, or a script is busy. After that, a password may be typed.
      const again = () => {
        this.#late.set(frameId, undefined)
        this.#waiting.add(frameId)
        this.#armNext()
      }
      this.#late.set(frameId, setTimeout(again, DOCUMENT_AGAIN_MS).unref())
    }
  }

  #onSaid(payload: string, context: number): void {
    const frameId = this.#frames.get(context)
    if (frameId === undefined || typeof payload !== 'string' || payload.length > MAX_SAID) return
    const said = parsed(payload)
    for (const hear of this.#users.get(said?.part as Part)?.hearers.keys() ?? []) hear(said!, frameId)
  }

  #listen(): void {
    const session = this.#session
    this.#unlisten = [
      session.on('Runtime.bindingCalled', ({ name, payload, executionContextId }) => {
        if (name === BINDING) this.#onSaid(payload, executionContextId)
      }),
      session.on('Page.frameNavigated', ({ frame }) => {
        if (frame.id === session.targetId) this.#isOverfull = false
        this.#armSoon(frame.id)
      }),
      session.on('Page.frameAttached', ({ frameId }) => this.#armSoon(frameId)),
      session.on('Page.frameDetached', ({ frameId }) => {
        this.#leave(frameId)
        this.#forget(frameId)
      }),
    ]
    void this.#readTree(this.#unlisten)
  }

  /** Prepares the existing documents, while these listeners are in use. */
  async #readTree(listeners: object): Promise<void> {
    const session = this.#session
    while (this.#unlisten === listeners) {
      try {
        const { frameTree } = await session.send('Page.getFrameTree', {}, { limitMs: DOCUMENT_MS })
        if (this.#unlisten === listeners) for (const frameId of framesOf(frameTree)) this.#armSoon(frameId)
        this.#isTreeLate = false
        return
      } catch (error) {
        if (this.#unlisten !== listeners || error instanceof CdpGone) return
        if (error instanceof CdpRefusal) return this.#armSoon(session.targetId)
        this.#isTreeLate = true
        await resultWithin(DOCUMENT_AGAIN_MS, new Promise(() => {}), session.detached)
      }
    }
  }

  #stopListening(): void {
    for (const off of this.#unlisten) off()
    this.#unlisten = []
    this.#frames.clear()
    for (const frameId of [...this.#waiting, ...this.#arming.keys(), ...this.#late.keys()]) this.#leave(frameId)
    this.#isTreeLate = this.#isOverfull = false
  }

  async #begin(part: Part): Promise<string> {
    const options = { source: SOURCES[part], worldName: WORLD, runImmediately: true }
    const { identifier } = await this.#session.send('Page.addScriptToEvaluateOnNewDocument', options, { limitMs: DOCUMENT_MS })
    return identifier
  }

  async #end(part: Part, identifier: string): Promise<void> {
    const session = this.#session
    const contexts = [...this.#frames.keys()]
    if (this.#users.size === 0) this.#stopListening()
    const ends = contexts.map((context) => this.#evaluate(context, `globalThis.${BINDING}Parts?.end('${part}')`, WORLD_STOP_MS))
    await Promise.allSettled([session.send('Page.removeScriptToEvaluateOnNewDocument', { identifier }, { limitMs: WORLD_STOP_MS }), ...ends])
    if (this.#users.size === 0) await Promise.allSettled([session.send('Runtime.removeBinding', { name: BINDING }, { limitMs: WORLD_STOP_MS })])
  }
}

function parsed(payload: string): Said | undefined {
  try {
    const said: unknown = JSON.parse(payload)
    return typeof said === 'object' && said !== null ? (said as Said) : undefined
  } catch {
    return undefined // only a page that controls its renderer can send such a text
  }
}

interface Tree {
  frame: { id: string }
  childFrames?: Tree[]
}

const framesOf = ({ frame, childFrames = [] }: Tree): string[] => [frame.id, ...childFrames.flatMap(framesOf)].slice(0, MAX_FRAMES)
