// Finds many words in one pass over a text, however many they are and however much of their beginnings they share.
import type { Range } from './ranges.ts'

/** How many of the first characters of a word tell where to look for it; no word is shorter. */
const HEAD = 3
const SLOTS = 1 << 16
const slotOf = (text: string, at: number): number => (text.charCodeAt(at) * 7919 + text.charCodeAt(at + 1) * 131 + text.charCodeAt(at + 2)) & (SLOTS - 1)

/**
 * The characters that are compared with words, for each of the text and at least. In texts that are not made for it, hardly one for each is: a text
 * that repeats the beginning of a long word has as many as that, at each of its characters.
 */
const MAX_STEPS_EACH = 64
const MIN_STEPS = 64 * 1024

/** Words with a common beginning: `word` from `from` to `to`, after what is above it. */
interface Branch {
  word: string
  from: number
  to: number
  isEnd: boolean
  /** By their first characters. */
  branches: Map<number, Branch>
}

const branch = (word: string, from: number, to: number): Branch => ({ word, from, to, isEnd: false, branches: new Map() })

export class WordTree {
  readonly #filled = new Uint8Array(SLOTS)
  readonly #root = branch('', 0, 0)
  /** Whether what was found in a text, from one place to the other, counts as this word. */
  readonly #counts: (text: string, from: number, to: number) => boolean
  #longest = 0

  constructor(counts: (text: string, from: number, to: number) => boolean) {
    this.#counts = counts
  }

  get longest(): number {
    return this.#longest
  }

  add(word: string): void {
    this.#filled[slotOf(word, 0)] = 1
    this.#longest = Math.max(this.#longest, word.length)
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

  /** Where words are: at each place the longest. All of the text where it takes too many steps to tell. */
  find(text: string): Range[] {
    const found: Range[] = []
    if (this.#longest === 0) return found
    let left = MIN_STEPS + MAX_STEPS_EACH * text.length
    for (let from = 0; from <= text.length - HEAD; from++) {
      if (this.#filled[slotOf(text, from)] === 0) continue
      let end = -1
      let at = this.#root
      for (let to = from; ;) {
        const next = at.branches.get(text.charCodeAt(to))
        if (!next) break
        const stop = from + next.to
        while (to < stop && text.charCodeAt(to) === next.word.charCodeAt(to - from)) to++
        left -= 1 + to - from - next.from
        if (to < stop) break
        if (next.isEnd && this.#counts(text, from, to)) end = to
        at = next
      }
      if (left < 0) return [[0, text.length]]
      if (end >= 0) found.push([from, end])
    }
    return found
  }
}
