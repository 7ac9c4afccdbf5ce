// A world of our own in each document of a target: its scripts (in-page/) have the page's document and none of its JavaScript, and the page sees neither them nor the
// function by which they tell something. Works without the Runtime domain, which a page could notice.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { resultWithin } from '../../../base/wait.ts'
import { FIELD_PARTS, FIELD_WORDS } from '../../../base/redact/names.ts'
import { CdpGone, CdpRefusal, type CdpSession } from '../../chromium/cdp.ts'
import type { WatchedTarget } from './collector.ts'
import { DOCUMENT_AGAIN_MS, DOCUMENT_MS, MAX_ASKED, MAX_FRAMES, MAX_SAID, PREPARED_AT_ONCE, SHOWN_MS, WORLD_STOP_MS } from '../limits.ts'

/** The scripts that can be asked for. */
export type Part = 'passwords' | 'interaction'
/** What a script tells: nothing of it is checked yet, beyond its length. */
export type Said = Record<string, unknown>
export type Hear = (said: Said, frameId: string) => void

/** The function that the scripts call, and a part of the names of their own. A page cannot guess it, so no element of a page can have it as its id. */
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

export interface World {
  /**
   * Runs a script in each document, from its beginning. `lost` is called for each frame that is one too many. The returned function ends that.
   * @throws as {@link CdpSession.send}
   */
  use(part: Part, hear: Hear, lost?: () => void): Promise<() => Promise<void>>
  /** Whether a secret can be read in one of its documents; true when one of them does not answer, or there are too many to ask. */
  showsSecret(): Promise<boolean>
  /** How many documents that asks. */
  readonly size: number
  /** Whether there are documents whose scripts are not heard: they did not answer in time, or are too many. */
  readonly isBehind: boolean
}

const worlds = new WeakMap<CdpSession, World>()

/** The world of a target. All collectors share it. */
export function worldOf({ session }: Pick<WatchedTarget, 'session'>): World {
  let world = worlds.get(session)
  if (!world) worlds.set(session, (world = makeWorld(session)))
  return world
}

interface User {
  hearers: Map<Hear, (() => void) | undefined>
  identifier: Promise<string>
}

function makeWorld(session: CdpSession): World {
  const users = new Map<Part, User>()
  /** The frame of each world, by the number of its execution context. */
  const frames = new Map<number, string>()
  let unlisten: (() => void)[] = []
  /** Frames whose document is to be prepared. */
  const waiting = new Set<string>()
  /** Frames whose document is being prepared; another object stands for another document. */
  const arming = new Map<string, object>()
  let busy = 0
  /** Frames whose document did not answer, until it does, or is gone. */
  const late = new Map<string, NodeJS.Timeout | undefined>()
  let isTreeLate = false
  let isOverfull = false

  const forget = (frameId: string) => {
    for (const [context, frame] of frames) if (frame === frameId) frames.delete(context)
  }

  /** Puts the function into the world of a frame's document. */
  async function arm(frameId: string): Promise<void> {
    const { executionContextId } = await session.send('Page.createIsolatedWorld', { frameId, worldName: WORLD }, { limitMs: DOCUMENT_MS })
    if (frames.has(executionContextId) || users.size === 0) return
    forget(frameId)
    if (frames.size >= MAX_FRAMES) return lose()
    frames.set(executionContextId, frameId)
    try {
      await session.send('Runtime.addBinding', { name: BINDING, executionContextId }, { limitMs: DOCUMENT_MS })
      await evaluate(executionContextId, `globalThis.${BINDING}Parts?.ready()`, DOCUMENT_MS)
    } catch (error) {
      frames.delete(executionContextId)
      throw error
    }
  }

  function lose(): void {
    isOverfull = true
    for (const { hearers } of users.values()) for (const lost of hearers.values()) lost?.()
  }

  const evaluate = async (contextId: number, expression: string, limitMs: number): Promise<unknown> =>
    (await session.send('Runtime.evaluate', { expression, contextId, returnByValue: true }, { limitMs })).result.value

  function armSoon(frameId: unknown): void {
    if (typeof frameId !== 'string') return
    leave(frameId)
    if (frames.size + waiting.size + late.size >= MAX_FRAMES && ![...frames.values()].includes(frameId)) return lose()
    waiting.add(frameId)
    armNext()
  }

  /** The document of a frame is gone: nothing more is tried with it. */
  function leave(frameId: string): void {
    waiting.delete(frameId)
    arming.delete(frameId)
    clearTimeout(late.get(frameId))
    late.delete(frameId)
  }

  function armNext(): void {
    for (const frameId of waiting) {
      if (busy >= PREPARED_AT_ONCE) return
      waiting.delete(frameId)
      busy++
      void armOne(frameId).finally(() => {
        busy--
        armNext()
      })
    }
  }

  async function armOne(frameId: string): Promise<void> {
    const document = {}
    arming.set(frameId, document)
    const isCurrent = () => arming.get(frameId) === document
    try {
      await arm(frameId)
      if (isCurrent()) leave(frameId)
    } catch (error) {
      if (!isCurrent()) return
      leave(frameId)
      // The frame is gone, or has another document, which has an event of its own.
      if (error instanceof CdpGone || error instanceof CdpRefusal || users.size === 0) return
      // A dialog is open, or a script is busy. When that is over a password may be typed.
      const again = () => {
        late.set(frameId, undefined)
        waiting.add(frameId)
        armNext()
      }
      late.set(frameId, setTimeout(again, DOCUMENT_AGAIN_MS).unref())
    }
  }

  function onSaid(payload: string, context: number): void {
    const frameId = frames.get(context)
    if (frameId === undefined || typeof payload !== 'string' || payload.length > MAX_SAID) return
    const said = parsed(payload)
    for (const hear of users.get(said?.part as Part)?.hearers.keys() ?? []) hear(said!, frameId)
  }

  function listen(): void {
    unlisten = [
      session.on('Runtime.bindingCalled', ({ name, payload, executionContextId }) => {
        if (name === BINDING) onSaid(payload, executionContextId)
      }),
      session.on('Page.frameNavigated', ({ frame }) => {
        if (frame.id === session.targetId) isOverfull = false
        armSoon(frame.id)
      }),
      session.on('Page.frameAttached', ({ frameId }) => armSoon(frameId)),
      session.on('Page.frameDetached', ({ frameId }) => {
        leave(frameId)
        forget(frameId)
      }),
    ]
    void readTree(unlisten)
  }

  /** Prepares the documents that are there, for as long as these listeners are in use. */
  async function readTree(listeners: object): Promise<void> {
    while (unlisten === listeners) {
      try {
        const { frameTree } = await session.send('Page.getFrameTree', {}, { limitMs: DOCUMENT_MS })
        if (unlisten === listeners) for (const frameId of framesOf(frameTree)) armSoon(frameId)
        isTreeLate = false
        return
      } catch (error) {
        if (unlisten !== listeners || error instanceof CdpGone) return
        if (error instanceof CdpRefusal) return armSoon(session.targetId)
        isTreeLate = true
        await resultWithin(DOCUMENT_AGAIN_MS, new Promise(() => {}), session.detached)
      }
    }
  }

  function stopListening(): void {
    for (const off of unlisten) off()
    unlisten = []
    frames.clear()
    for (const frameId of [...waiting, ...arming.keys(), ...late.keys()]) leave(frameId)
    isTreeLate = isOverfull = false
  }

  async function begin(part: Part): Promise<string> {
    const options = { source: SOURCES[part], worldName: WORLD, runImmediately: true }
    const { identifier } = await session.send('Page.addScriptToEvaluateOnNewDocument', options, { limitMs: DOCUMENT_MS })
    return identifier
  }

  async function end(part: Part, identifier: string): Promise<void> {
    const contexts = [...frames.keys()]
    if (users.size === 0) stopListening()
    const ends = contexts.map((context) => evaluate(context, `globalThis.${BINDING}Parts?.end('${part}')`, WORLD_STOP_MS))
    await Promise.allSettled([session.send('Page.removeScriptToEvaluateOnNewDocument', { identifier }, { limitMs: WORLD_STOP_MS }), ...ends])
    if (users.size === 0) await Promise.allSettled([session.send('Runtime.removeBinding', { name: BINDING }, { limitMs: WORLD_STOP_MS })])
  }

  return {
    async use(part, hear, lost) {
      let user = users.get(part)
      if (!user) {
        if (users.size === 0) listen()
        user = { hearers: new Map(), identifier: begin(part) }
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
          if (stopHearing()) await end(part, identifier)
        }
      } catch (error) {
        if (stopHearing() && users.size === 0) stopListening()
        throw error
      }
    },
    get size() {
      return frames.size
    },
    get isBehind() {
      return late.size > 0 || isTreeLate || isOverfull
    },
    async showsSecret() {
      // A document that cannot be asked yet may show one.
      if (frames.size > MAX_ASKED || this.isBehind || waiting.size > 0 || busy > 0) return true
      const asked = [...frames.keys()].map((context) => evaluate(context, `globalThis.${BINDING}Parts?.passwordLike.isShown()`, SHOWN_MS).catch(() => true))
      const answers = await resultWithin(SHOWN_MS, Promise.all(asked))
      return answers?.some((answer) => answer !== false) ?? true
    },
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
