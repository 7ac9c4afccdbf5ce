// Values that were seen to be secrets, such as what was typed into a password field: found again in the forms in which pages pass them on.
import { formsOf } from './forms.ts'
import type { Range } from './ranges.ts'
import { WordTree } from './word-tree.ts'

/** The values that are remembered, of all sources and of one: no frame can have those of others forgotten. Stages go first, then the one learned the longest ago. */
const MAX_VALUES = 512
const MAX_OF_SOURCE = 64
/** Fields whose stages are known. */
const MAX_FIELDS = 512
/** Of what is typed into a field, so many values count until more is known of it. */
const MAX_OF_FIELD = 2
/** Shorter ones are in ordinary words. */
export const MIN_LENGTH = 4
/** Digits of a card's code: found only where they stand alone, and not for ever. */
const CODE = /^\d{3}$/
const CODE_MS = 300_000
/** Of a longer value, this much of its beginning is looked for. */
const MAX_LENGTH = 1024
/** What is not looked for any more stays in the index for so long at most: to make it anew takes milliseconds. */
const STALE_MS = 1_000

/** What was in a field while more was typed may be in events that are late. Then it is forgotten: the beginning of a password is often an ordinary word. */
const STAGE_MS = 10_000

/** Where a value comes from. */
export interface Origin {
  /** What the field held before its user has typed more, empty at first. It was no secret of its own. */
  stage?: string | undefined
  /** The document that has the field. */
  source?: string
  /** The field, by a number of that document's. */
  field?: number | undefined
}

export interface Learned {
  /** Cheap: what is learned is made ready when a text is searched. */
  learn(value: string, origin?: Origin): void
  /** Where the values are in the text. */
  find(text: string): Range[]
  /** Forgets all values. */
  forget(): void
  /** The length of the longest form of a value: so much of a value may be at the end of a text that was cut. */
  readonly longest: number
  /** Another number after each change of what is looked for. */
  readonly version: number
}

interface Value {
  forms: string[] | undefined
  source: string
  /** It may be the beginning of a value that is still typed. */
  isStage: boolean
  /** When it is forgotten, in milliseconds of `performance.now()`. */
  until: number
}

export function makeLearned(): Learned {
  const values = new Map<string, Value>()
  const ofField = new Map<string, string[]>()
  const ofSource = new Map<string, number>()
  let index = makeIndex()
  /** Values that are not in the index yet. */
  let pending = new Set<string>()
  /** When the index was found to have forms of values that are forgotten. */
  let staleSince = Infinity
  let nextEnd = Infinity
  let version = 0

  function remove(value: string): void {
    const known = values.get(value)
    if (!known) return
    values.delete(value)
    const left = (ofSource.get(known.source) ?? 1) - 1
    if (left > 0) ofSource.set(known.source, left)
    else ofSource.delete(known.source)
    if (!pending.delete(value)) staleSince = Math.min(staleSince, performance.now())
  }

  function end(value: string | undefined, ms: number): void {
    const known = value === undefined ? undefined : values.get(value)
    if (!known?.isStage || known.until < Infinity) return
    known.until = performance.now() + ms
    nextEnd = Math.min(nextEnd, known.until)
  }

  /** Makes room by the value of this source that is worth the least. */
  function removeOneOf(source: string): void {
    let oldest: string | undefined
    for (const [value, known] of values) {
      if (known.source !== source) continue
      if (known.isStage && known.until < Infinity) return remove(value)
      oldest ??= value
    }
    if (oldest !== undefined) remove(oldest)
  }

  function forgetEnded(): void {
    const now = performance.now()
    if (now < nextEnd) return
    nextEnd = Infinity
    for (const [value, { until }] of values)
      if (until <= now) remove(value)
      else nextEnd = Math.min(nextEnd, until)
    staleSince = -Infinity
  }

  function prepare(): void {
    forgetEnded()
    if (performance.now() - staleSince >= STALE_MS) {
      staleSince = Infinity
      index = makeIndex()
      pending = new Set(values.keys())
    }
    for (const value of pending) {
      const known = values.get(value)!
      for (const form of (known.forms ??= CODE.test(value) ? [value] : formsOf(value, MIN_LENGTH))) index.add(form)
    }
    pending.clear()
  }

  /** Only the last values of a field count while it is typed into. */
  function follow(key: string, value: string): void {
    const before = ofField.get(key) ?? []
    ofField.delete(key)
    if (before.at(-1) !== value) before.push(value)
    if (before.length > MAX_OF_FIELD) end(before.shift(), STAGE_MS)
    ofField.set(key, before)
    if (ofField.size > MAX_FIELDS) ofField.delete(ofField.keys().next().value!)
  }

  return {
    learn(given, { stage, source = '', field } = {}) {
      const value = given.slice(0, MAX_LENGTH).toWellFormed()
      const isCode = CODE.test(value)
      if (value.trim().length < MIN_LENGTH && !isCode) return
      const known = values.get(value)
      if (known) values.delete(value)
      else {
        version++
        pending.add(value)
        ofSource.set(source, (ofSource.get(source) ?? 0) + 1)
      }
      const until = isCode ? performance.now() + CODE_MS : Infinity
      nextEnd = Math.min(nextEnd, until)
      const isStage = stage !== undefined && known?.isStage !== false
      values.set(value, { forms: known?.forms, source: known?.source ?? source, isStage, until })
      if (stage !== undefined && stage !== given) end(stage.slice(0, MAX_LENGTH).toWellFormed(), STAGE_MS)
      if (stage !== undefined && field !== undefined) follow(`${source} ${field}`, value)
      if (ofSource.get(source)! > MAX_OF_SOURCE) removeOneOf(source)
      else if (values.size > MAX_VALUES) removeOneOf([...ofSource].reduce((most, one) => (one[1] > most[1] ? one : most))[0])
    },
    find(text) {
      prepare()
      return index.find(text)
    },
    forget() {
      for (const all of [values, ofField, ofSource, pending]) all.clear()
      index = makeIndex()
      staleSince = nextEnd = Infinity
      version++
    },
    get longest() {
      prepare()
      return index.longest
    },
    get version() {
      return version
    },
  }
}

const makeIndex = () => new WordTree((text, from, to) => to - from >= MIN_LENGTH || standsAlone(text, from, to))

const standsAlone = (text: string, from: number, to: number): boolean => !/[\p{L}\d.,]/u.test(text[from - 1] ?? '') && !/[\p{L}\d]/u.test(text[to] ?? '')
