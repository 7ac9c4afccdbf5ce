// Finds many words in one pass over a text, with any number of words and of shared beginnings.
import type { Folded } from './folded.ts'
import type { Range } from './ranges.ts'

/** The number of first characters by which a word is looked up; no word is shorter. */
const HEAD = 2
const SLOTS = 1 << 16
const slotOf = (first: number, second: number): number => (first * 7919 + second * 131) & (SLOTS - 1)
/** The length of a word's beginning that counts at the end of a cut text. */
const LEAST_BEGINNING = 4

/**
 * Most characters that are compared with words, per character of the text and at least. Ordinary texts hardly need one per character. A text that repeats the
 * beginning of a long word needs the length of that beginning at each of its characters.
 */
const MAX_STEPS_EACH = 64
const MIN_STEPS = 64 * 1024

/** Words with a common beginning: `word` from `from` to `to`, after what is above it. */
interface Branch {
  word: string
  from: number
  to: number
  isEnd: boolean
  /** Words by their first characters. */
  branches: Map<number, Branch>
}

const branch = (word: string, from: number, to: number): Branch => ({ word, from, to, isEnd: false, branches: new Map() })

export class WordTree {
  readonly #filled = new Uint8Array(SLOTS)
  readonly #root = branch('', 0, 0)
  /** Whether a match in a text, from one position to the other, counts as this word. */
  readonly #counts: (text: Folded, from: number, to: number) => boolean
  #isEmpty = true

  constructor(counts: (text: Folded, from: number, to: number) => boolean) {
    this.#counts = counts
  }

  get isEmpty(): boolean {
    return this.#isEmpty
  }

  add(word: string): void {
    this.#filled[slotOf(word.charCodeAt(0), word.charCodeAt(1))] = 1
    this.#isEmpty = false
    let at = this.#root
    for (let length = 0; length < word.length; length = at.to) {
      const first = word.charCodeAt(length)
      const next = at.branches.get(first)
      if (!next) {
        const leaf = branch(word, length, word.length)
        at.branches.set(first, leaf)
        at = leaf
        continue
      }
      let same = length + 1
      while (same < next.to && same < word.length && next.word.charCodeAt(same) === word.charCodeAt(same)) same++
      if (same < next.to) {
        const common = branch(next.word, next.from, same)
        at.branches.set(first, common)
        next.from = same
        common.branches.set(next.word.charCodeAt(same), next)
        at = common
      } else at = next
    }
    at.isEnd = true
  }

  /**
   * The positions of words: at each position the longest. The whole text when the search takes too many steps. `isCut`: its end may be the beginning of a word.
   */
  find(text: Folded, isCut: boolean): Range[] {
    const { codes, places, length } = text
    const range = (from: number, to: number): Range => (places ? [places.starts[from]!, places.ends[to - 1]!] : [from, to])
    const found: Range[] = []
    let left = MIN_STEPS + MAX_STEPS_EACH * length
    for (let from = 0; from <= length - HEAD; from++) {
      if (this.#filled[slotOf(codes[from]!, codes[from + 1]!)] === 0) continue
      let end = -1
      let at = this.#root
      for (let to = from; ;) {
        const next = to < length ? at.branches.get(codes[to]!) : undefined
        if (!next) break
        const stop = Math.min(from + next.to, length)
        while (to < stop && codes[to] === next.word.charCodeAt(to - from)) to++
        left -= 1 + to - from - next.from
        if (isCut && to === length && to - from >= LEAST_BEGINNING) end = to
        if (to < from + next.to) break
        if (next.isEnd && this.#counts(text, from, to)) end = to
        at = next
      }
      if (left < 0) return [range(0, length)]
      if (end >= 0) found.push(range(from, end))
    }
    return found
  }
}
