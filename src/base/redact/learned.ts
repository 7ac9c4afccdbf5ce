// Values that are known to be secrets, such as text that was typed into a password field. They are found again in the forms in which pages pass them on.
import { Latest } from '../latest.ts'
import { folded, foldedText, lowered, loweredText, type Folded } from './folded.ts'
import type { Range } from './ranges.ts'
import { unitsOf, type Units } from './units.ts'
import { WordTree } from './word-tree.ts'

/**
 * Most values that are kept, of all sources and of one: no frame can make those of others be dropped. Stages are dropped first, then the value that was learned
 * the longest ago.
 */
const MAX_VALUES = 512
const MAX_OF_SOURCE = 64
/** Most fields whose stages are known. */
const MAX_FIELDS = 512
/** Most values of a field that is being typed into. */
const MAX_OF_FIELD = 2
/** Shorter values are parts of ordinary words: they are found only as whole words, and only if they are known to be secrets. */
const MIN_LENGTH = 4
const MIN_WORD = 2
/** The shortest part of a value that must occur in a longer base64 text. */
const MIN_BASE64 = 5
/** Digits of a card's code: found only as a whole word, and only for a while. */
const CODE = /^\d{3}$/
const CODE_MS = 300_000
/** The beginning of a longer value that is searched for. */
const MAX_LENGTH = 4096
/** Longest time that unused values stay in the index: rebuilding it takes milliseconds. */
const STALE_MS = 1_000

/**
 * Earlier stages of a field's text may be in events that are late. After this time they are forgotten: the beginning of a password is often an ordinary word.
 */
const STAGE_MS = 10_000

/** The source of a value. */
export interface Origin {
  /** The previous text of the field, before its user typed more; empty at first. It was no secret of its own. */
  stage?: string | undefined
  /** The document that contains the field. */
  source?: string
  /** The field, by its number in the document. */
  field?: number | undefined
  /** The value is a secret however short it is, and as long as any value is kept. */
  isKnown?: boolean
}

export interface Learned {
  /** Takes little time: learned values are indexed when a text is searched. */
  learn(value: string, origin?: Origin): void
  /**
   * The positions of the values in the text. `isCut`: its end may be the beginning of a value. `units`: those of this text, if the caller uses them as well.
   */
  find(text: string, isCut: boolean, units?: () => Units): Range[]
  /** Forgets all values. */
  forget(): void
  /** A number that changes with the searched values. */
  readonly version: number
}

interface Value {
  forms: string[] | undefined
  source: string
  /** The value may be the beginning of one that is still being typed. */
  isStage: boolean
  /** When it is forgotten, in milliseconds of `performance.now()`. */
  until: number
}

export function makeLearned(): Learned {
  const values = new Map<string, Value>()
  const ofField = new Latest<string, string[]>(MAX_FIELDS)
  const ofSource = new Map<string, number>()
  let index = makeIndex()
  /** Values that are not in the index yet. */
  let pending = new Set<string>()
  /** When the index was found to contain forms of forgotten values. */
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

  /** Drops the least valuable value of this source. */
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
      for (const form of (known.forms ??= formsOf(value))) index.add(form)
    }
    pending.clear()
  }

  /** Only the last values of a field count while it is being typed into. */
  function follow(key: string, value: string): void {
    const before = ofField.get(key) ?? []
    if (before.at(-1) !== value) before.push(value)
    if (before.length > MAX_OF_FIELD) end(before.shift(), STAGE_MS)
    ofField.set(key, before)
  }

  return {
    learn(given, { stage, source = '', field, isKnown = false } = {}) {
      const value = given.slice(0, MAX_LENGTH).toWellFormed()
      const isCode = CODE.test(value)
      const { length } = value.trim()
      if (isKnown ? length < MIN_WORD : length < MIN_LENGTH && !isCode) return
      const known = values.get(value)
      if (known) values.delete(value)
      else {
        version++
        pending.add(value)
        ofSource.set(source, (ofSource.get(source) ?? 0) + 1)
      }
      const until = isCode && !isKnown ? performance.now() + CODE_MS : Infinity
      nextEnd = Math.min(nextEnd, until)
      const isStage = stage !== undefined && known?.isStage !== false
      values.set(value, { forms: known?.forms, source: known?.source ?? source, isStage, until })
      if (stage !== undefined && stage !== given) end(stage.slice(0, MAX_LENGTH).toWellFormed(), STAGE_MS)
      if (stage !== undefined && field !== undefined) follow(`${source} ${field}`, value)
      if (isKnown) return
      if (ofSource.get(source)! > MAX_OF_SOURCE) removeOneOf(source)
      else if (values.size > MAX_VALUES) removeOneOf([...ofSource].reduce((most, one) => (one[1] > most[1] ? one : most))[0])
    },
    find(text, isCut, units = () => unitsOf(text)) {
      prepare()
      if (index.isEmpty) return []
      const found = index.find(lowered(text), isCut)
      // Unescaped text is found as it is: a value may look like an escape, or an escape may have begun before it.
      return ESCAPES.test(text) ? [...found, ...index.find(folded(isCut ? withoutHalf(text, units()) : units()), isCut)] : found
    },
    forget() {
      for (const all of [values, ofField, ofSource, pending]) all.clear()
      index = makeIndex()
      staleSince = nextEnd = Infinity
      version++
    },
    get version() {
      return version
    },
  }
}

const ESCAPES = /[%\\+]/
/** The possible remains of an escape, or of a character of several units, at the end of a cut text. */
const HALF = /(?:%(?:25)*[89a-f][\da-f]){0,3}(?:%(?:25)*[\da-f]?|%u[\da-f]{0,3}|\\u[\da-f]{0,3})?$/i
const MAX_HALF = 64
function withoutHalf(text: string, units: Units): Units {
  const end = text.length - HALF.exec(text.slice(-MAX_HALF))![0].length
  let { length } = units
  while (length > 0 && units.starts[length - 1]! >= end) length--
  return { ...units, length }
}

const makeIndex = () => new WordTree((text, from, to) => to - from >= MIN_LENGTH || standsAlone(text, from, to))

/** Digits must also not be a part of an amount. */
function standsAlone({ codes, length }: Folded, from: number, to: number): boolean {
  const [before, after] = [from > 0 ? String.fromCharCode(codes[from - 1]!) : '', to < length ? String.fromCharCode(codes[to]!) : '']
  const isNumber = codes[from]! >= 0x30 && codes[from]! <= 0x39
  return !(isNumber ? /[\p{L}\d.,]/u : /[\p{L}\p{N}]/u).test(before) && !/[\p{L}\p{N}]/u.test(after)
}

/** All forms of a value that are searched for. */
function formsOf(value: string): string[] {
  const readings = [...readingsOf(value)]
  const json = (text: string) => JSON.stringify(text).slice(1, -1)
  const texts = readings.flatMap((text) => [text, json(text), html(text), ...base64Forms(text)]).flatMap((text) => [foldedText(text), loweredText(text)])
  // A value that is mostly escapes has few characters left after unescaping.
  if (foldedText(value).length < MIN_LENGTH) texts.push(loweredText(encodeURIComponent(value)))
  return [...new Set(texts)].filter((text) => text.length >= Math.min(MIN_LENGTH, value.trim().length))
}

/** Forms that a program may make of the value before it passes it on. */
function readingsOf(value: string): Set<string> {
  const trimmed = value.trim()
  const readings = new Set([value, trimmed, value.normalize('NFC'), value.normalize('NFD')])
  if (/^\d[\d\s-]{2,}\d$/.test(trimmed)) {
    const digits = trimmed.replaceAll(/[\s-]/g, '')
    readings.add(digits)
    // The usual display of card numbers.
    if (digits.length >= 12 && digits.length <= 19) for (const space of [' ', '-']) readings.add(digits.match(/\d{1,4}/g)!.join(space))
  }
  return readings
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const html = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => ENTITIES[char]!)

/**
 * The part of the value that is in any base64 text that contains it, as in `Basic` with the user's name before it. Three bytes are four characters, so there
 * are three alignments; characters that are shared with neighbours are left out.
 */
function base64Forms(value: string): string[] {
  const bytes = Buffer.from(value)
  return [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes, Buffer.alloc(2)]).toString('base64')
    const part = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    return part.length >= MIN_BASE64 ? [part, part.replaceAll('+', '-').replaceAll('/', '_')] : []
  })
}
