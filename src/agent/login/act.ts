// Acts on the page that was read last. Values are typed only into one element of one document, and only if its host and those of the documents around it are
// allowed.
import * as z from 'zod'
import { sleep, WaitTimeout } from '../../base/wait.ts'
import { CdpGone } from '../chromium/cdp.ts'
import type { Params } from '../chromium/cdp-protocol.ts'
import type { Acted, Action, Ref } from './contract.ts'
import { isAllowedHost } from './hosts.ts'
import { placeOf, type ReadFrame, type Reading } from './read.ts'
import type { Tab } from './tab.ts'
import { DocumentGone } from './world.ts'

/** A page handles an input event within some milliseconds. If it takes longer, it has got the event all the same. */
const INPUT_MS = 3_000
/** Scrolling within frames of other processes takes effect a frame or two later. */
const SCROLLED_MS = 60

const Outcome = z.object({
  problem: z.enum(['host', 'gone', 'unusable', 'covered']).nullable(),
  host: z.string().max(253).optional(),
  typed: z.boolean().optional(),
})
const Spot = Outcome.extend({ x: z.number().optional(), y: z.number().optional() })
const Checked = Outcome.extend({ checked: z.boolean().optional() })
/** The outcome for a document that does not exist any more. */
const GONE = { problem: 'gone' } as const
type Problem = { problem: NonNullable<Acted['problem']>; host?: string; typed?: boolean }
type Fill = Extract<Action, { kind: 'fill' }>

/** Keeps a value out of later events. */
type Learn = (value: string) => void

interface Target {
  frame: ReadFrame
  index: number
  path: [generation: number, index: number]
}

/** Carries out actions in order until one fails. */
export async function act(reading: Reading, actions: readonly Action[], hosts: readonly string[], learn: Learn, signal: AbortSignal): Promise<Acted> {
  const hand = new Hand(reading, hosts, learn, signal)
  let done = 0
  for (const action of actions) {
    signal.throwIfAborted()
    const problem = await hand.do(action)
    if (problem?.problem === 'host') return { done, problem: 'host', host: problem.host ?? null }
    if (problem) return { done, problem: problem.problem, host: null, typed: hand.mayHaveTyped }
    done++
  }
  return { done, problem: null, host: null }
}

class Hand {
  readonly #reading: Reading
  readonly #hosts: readonly string[]
  readonly #learn: Learn
  readonly #signal: AbortSignal
  /** Whether the last action has typed its value into the page, or may have. */
  mayHaveTyped = false

  constructor(reading: Reading, hosts: readonly string[], learn: Learn, signal: AbortSignal) {
    this.#reading = reading
    this.#hosts = hosts
    this.#learn = learn
    this.#signal = signal
  }

  get #tab(): Tab {
    return this.#reading.tab
  }

  async do(action: Action): Promise<Problem | undefined> {
    this.mayHaveTyped = false
    const target = this.#find(action.ref)
    if (!target) return GONE
    try {
      switch (action.kind) {
        case 'fill':
          return await (action.boxes ? this.#fillBoxes(action.value, action.boxes) : this.#fill(action, target))
        case 'select':
          return await this.#ask(target, 'choose', [action.option])
        case 'check':
          return await this.#check(target, action.checked)
        case 'click':
          return await this.#click(target)
        case 'press':
          return (await this.#ask(target, 'focus')) ?? (await this.#key({ key: action.key, code: 'Enter', windowsVirtualKeyCode: 13, text: '\r' }))
      }
    } catch (error) {
      if (error instanceof DocumentGone || error instanceof CdpGone) return GONE
      if (error instanceof WaitTimeout) return { problem: 'unusable' } // the page hangs
      throw error
    }
  }

  /** The element of a reference; undefined when it belongs to another read, or to a closed tab. */
  #find(ref: Ref): Target | undefined {
    const [generation, at, index] = ref.split('.').map(Number) as [number, number, number]
    const frame = this.#reading.frames[at]
    if (generation !== this.#reading.generation || !frame || this.#tab.isGone) return undefined
    return { frame, index, path: [generation, index] }
  }

  async #ask({ frame, path }: Target, name: string, more: readonly unknown[] = []): Promise<Problem | undefined> {
    const { problem, host, typed } = Outcome.parse(await frame.world.call(name, [...path, ...more]))
    if (problem === null) return undefined
    return { problem: problem === 'covered' ? 'unusable' : problem, ...(host !== undefined && { host }), ...(typed !== undefined && { typed }) }
  }

  async #fill({ value }: Fill, target: Target): Promise<Problem | undefined> {
    const refused = await this.#prepare([target])
    if (refused) return refused
    this.#learn(value)
    // Click as a person does. A covered field is reached by the keyboard.
    const clicked = await this.#clickAt(target)
    if (clicked && clicked.problem !== 'unusable') return clicked
    const problem = (await this.#refused([target])) ?? (await this.#insert(target, value))
    // Pages that validate a field on a key release do so now. This key types nothing.
    if (!problem) await this.#key({ key: 'Shift', code: 'ShiftLeft', windowsVirtualKeyCode: 16 })
    return problem
  }

  /** A page may accept the value and navigate, or clear the field, before there is an answer. */
  async #insert(target: Target, value: string): Promise<Problem | undefined> {
    const before = this.mayHaveTyped
    this.mayHaveTyped = true
    const problem = await this.#ask(target, 'fill', [value, this.#hosts])
    if (problem?.typed === false) this.mayHaveTyped = before
    return problem
  }

  /**
   * Types one character into each box. Key events go to the element with the focus, and a frame of another host can take the focus at any moment. So key events
   * contain the characters only if the page has no such frame. Otherwise each character is inserted as text, between key events without it.
   */
  async #fillBoxes(value: string, refs: readonly Ref[]): Promise<Problem | undefined> {
    const characters = Array.from(value)
    const found = refs.map((ref) => this.#find(ref))
    const boxes = found.filter((box) => box !== undefined)
    if (boxes.length < found.length) return GONE
    if (characters.length > boxes.length) return { problem: 'unusable' }
    const refused = await this.#prepare(boxes)
    if (refused) return refused
    this.#learn(value)
    const clicked = await this.#clickAt(boxes[0]!)
    if (clicked && clicked.problem !== 'unusable') return clicked
    for (const [at, character] of characters.entries()) {
      this.#signal.throwIfAborted()
      const problem = await this.#fillBox(boxes[at]!, character)
      if (problem) return problem
    }
    return undefined
  }

  async #fillBox(box: Target, character: string): Promise<Problem | undefined> {
    const refused = await this.#refused([box])
    if (refused) return refused
    const isByKey = await this.#isAllAllowed()
    const unready = await this.#ask(box, 'ready', [this.#hosts])
    if (unready) return unready
    if (isByKey) {
      this.mayHaveTyped = true
      return this.#key(keyOf(character))
    }
    const problem = await this.#insert(box, character)
    if (!problem) await this.#key({ key: 'Unidentified', windowsVirtualKeyCode: 229 })
    return problem
  }

  /** Masks the fields, after checking their hosts. */
  async #prepare(targets: readonly Target[]): Promise<Problem | undefined> {
    const refused = await this.#refused(targets)
    if (refused) return refused
    for (const frame of new Set(targets.map((target) => target.frame))) {
      const host = z
        .string()
        .max(253)
        .nullable()
        .parse(await frame.world.call('refused', [this.#hosts]))
      if (host !== null) return { problem: 'host', host }
      await this.#tab.mask(frame.state)
    }
    for (const { frame, path } of targets) await frame.world.call('mask', path)
    return undefined
  }

  /** Checks the hosts of the page and its frames with Chromium's browser process, not with their renderers. */
  async #refused(targets: readonly Target[]): Promise<Problem | undefined> {
    const { frames } = this.#reading
    const around = new Set<ReadFrame>(targets.map(({ frame }) => frame))
    for (const { parent } of around) if (parent !== null) around.add(frames[parent]!)
    const wrong = (await this.#tab.hosts([frames[0]!.state.id, ...[...around].map(({ state }) => state.id)])).find((host) => !isAllowedHost(host, this.#hosts))
    return wrong === undefined ? undefined : { problem: 'host', host: wrong }
  }

  /** Whether every frame of the tab may get values. */
  async #isAllAllowed(): Promise<boolean> {
    const frames = await this.#tab.frames()
    const isAllowed = ({ url }: { url: string }) =>
      /^about:(?:blank|srcdoc)$/.test(url) || (URL.canParse(url) && isAllowedHost(new URL(url).hostname, this.#hosts))
    return frames.every(isAllowed)
  }

  async #check(target: Target, wanted: boolean): Promise<Problem | undefined> {
    const state = async () => Checked.parse(await target.frame.world.call('isChecked', target.path))
    const before = await state()
    if (before.problem !== null) return GONE
    if (before.checked === wanted) return undefined
    const problem = await this.#click(target, { key: ' ', code: 'Space', windowsVirtualKeyCode: 32, text: ' ' })
    if (problem) return problem
    return (await state()).checked === wanted ? undefined : { problem: 'unusable' }
  }

  /** A click; for a covered element that can take the focus, the key with the same effect. */
  async #click(target: Target, key: Key = { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13, text: '\r' }): Promise<Problem | undefined> {
    const problem = await this.#clickAt(target)
    if (problem?.problem !== 'unusable') return problem
    return (await this.#ask(target, 'focus')) ?? (await this.#key(key))
  }

  /** A click at the element's place on the screen. `unusable`: something else is at that place. */
  async #clickAt(target: Target): Promise<Problem | undefined> {
    const { frame, path } = target
    const hidden = await this.#ask(target, 'show')
    if (hidden) return hidden
    if (frame.parent !== null) await sleep(SCROLLED_MS, this.#signal)
    const spot = Spot.parse(await frame.world.call('point', path))
    if (spot.problem !== null) return { problem: spot.problem === 'gone' ? 'gone' : 'unusable' }
    let [x, y] = [spot.x ?? 0, spot.y ?? 0]
    for (let at: ReadFrame = frame; at.parent !== null; at = this.#reading.frames[at.parent]!) {
      const { box, visible } = await placeOf(this.#reading.frames[at.parent]!, at.state.id)
      if (!visible) return { problem: 'unusable' }
      x += box.x
      y += box.y
    }
    const mouse = { x, y, button: 'left', clickCount: 1 } as const
    await this.#input('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y })
    await this.#input('Input.dispatchMouseEvent', { ...mouse, type: 'mousePressed', buttons: 1 })
    await this.#input('Input.dispatchMouseEvent', { ...mouse, type: 'mouseReleased' })
    return undefined
  }

  async #key(key: Key): Promise<undefined> {
    const { text, ...rest } = key
    await this.#input('Input.dispatchKeyEvent', {
      ...rest,
      type: text === undefined ? 'rawKeyDown' : 'keyDown',
      ...(text !== undefined && { text, unmodifiedText: text }),
    })
    await this.#input('Input.dispatchKeyEvent', { ...rest, type: 'keyUp' })
    return undefined
  }

  /** Sends an input event. If the page ends because of it, or does not handle it in time, it was sent all the same. */
  async #input<M extends 'Input.dispatchMouseEvent' | 'Input.dispatchKeyEvent'>(method: M, params: Params<M>): Promise<void> {
    try {
      await this.#tab.session.send(method, params, { limitMs: INPUT_MS, signal: this.#signal })
    } catch (error) {
      if (!(error instanceof CdpGone) && !(error instanceof WaitTimeout)) throw error
    }
  }
}

type Key = { key: string; code?: string; windowsVirtualKeyCode?: number; text?: string }

/** The key for a character on a US keyboard. */
function keyOf(character: string): Key {
  if (/^\d$/.test(character)) return { key: character, code: `Digit${character}`, windowsVirtualKeyCode: character.charCodeAt(0), text: character }
  if (/^[a-z]$/i.test(character))
    return { key: character, code: `Key${character.toUpperCase()}`, windowsVirtualKeyCode: character.toUpperCase().charCodeAt(0), text: character }
  return { key: character, text: character }
}
