// Finds words of login pages in a text: the lists that match. The lists are in field-words.ts, action-words.ts and message-words.ts.
import { ACTION_WORDS } from './action-words.ts'
import { FIELD_WORDS } from './field-words.ts'
import { MESSAGE_WORDS } from './message-words.ts'

const LISTS = { ...FIELD_WORDS, ...ACTION_WORDS, ...MESSAGE_WORDS }
/** A meaning that words of several languages share. */
export type Word = keyof typeof LISTS
export type Words = ReadonlySet<Word>

/** Scripts without spaces between words, or with particles joined to them: there a phrase counts wherever it is found. */
const JOINED = /[\u0590-\u08ff\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af]/
/** Most words of a label: a longer text is no label. */
const LABEL_TOKENS = 40
const TEXT_TOKENS = 1600
/** A shorter stem is the beginning of too many words. */
const SHORTEST_STEM = 3

/** A node in the tree of phrases: the phrases that end here, and the nodes of next words. */
interface Node {
  words: Word[]
  next: Map<string, Node>
  /** Nodes by the stem of the next word, written with a `*` in the lists. */
  stems: Map<string, Node>
}

const emptyNode = (): Node => ({ words: [], next: new Map(), stems: new Map() })
const phrases = emptyNode()
/** Phrases in such scripts, by their first letters. */
const joined = new Map<string, [phrase: string, word: Word][]>()
let longestStem = 0

/** Lower case, without accents, in one Unicode form: lists and pages are compared in it. */
export function fold(text: string): string {
  const lower = text.toLowerCase()
  // Most texts are ASCII, and normalising costs more than everything after it.
  if (/^[\p{ASCII}]*$/u.test(lower)) return lower
  const plain = lower
    .normalize('NFKD')
    .replace(/\p{Mn}/gu, '')
    .normalize('NFC')
  return plain.replace(/[ßıłøæœđ’]/g, (letter) => FOLDED[letter]!)
}
const FOLDED: Record<string, string> = { ß: 'ss', ı: 'i', ł: 'l', ø: 'o', æ: 'ae', œ: 'oe', đ: 'd', '’': "'" }

/** The words of a text, folded. */
export const tokensOf = (text: string): string[] => split(fold(text))
const split = (plain: string): string[] => plain.match(/[\p{L}\p{N}]+/gu) ?? []

for (const [word, list] of Object.entries(LISTS) as [Word, string][])
  for (const entry of list.split(/[|\n]/)) {
    const phrase = entry.trim()
    if (phrase === '') continue
    if (JOINED.test(phrase)) {
      const plain = fold(phrase).replaceAll(/\s+/g, ' ')
      joined.set(plain[0]!, [...(joined.get(plain[0]!) ?? []), [plain, word]])
    } else {
      let node = phrases
      for (const [token] of fold(phrase).matchAll(/[\p{L}\p{N}]+\*?/gu)) {
        const isStem = token.endsWith('*')
        const key = isStem ? token.slice(0, -1) : token
        if (isStem) longestStem = Math.max(longestStem, key.length)
        const ways = isStem ? node.stems : node.next
        const next = ways.get(key) ?? emptyNode()
        ways.set(key, next)
        node = next
      }
      node.words.push(word)
    }
  }

/** The lists that match a label. */
export const wordsOf = (text: string): Words => find(text, LABEL_TOKENS)

/** The same for a long text. */
export const wordsOfText = (text: string): Words => find(text, TEXT_TOKENS)

/** The same for a name in code: `userName`, `auth[user_name]`, `j_password`. */
export const wordsOfName = (name: string): Words => wordsOf(spaced(name))

/** A name in code as separate words. */
export const spaced = (name: string): string =>
  name
    .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2')
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

function find(text: string, most: number): Words {
  const found = new Set<Word>()
  if (text === '') return found
  const isJoined = JOINED.test(text)
  // Without spaces, a few letters are a word.
  const plain = fold(isJoined ? text.slice(0, most * 4) : text)
  const tokens = split(plain).slice(0, most)
  for (let at = 0; at < tokens.length; at++) follow(phrases, tokens, at, found)
  if (isJoined) {
    for (let at = 0; at < plain.length; at++)
      for (const [phrase, word] of joined.get(plain[at]!) ?? []) if (!found.has(word) && plain.startsWith(phrase, at)) found.add(word)
  }
  return found
}

/** Adds the meanings of phrases that continue from a node with the tokens from `at` on. */
function follow(node: Node, tokens: readonly string[], at: number, found: Set<Word>): void {
  for (const word of node.words) found.add(word)
  const token = tokens[at]
  if (token === undefined) return
  const next = node.next.get(token)
  if (next) follow(next, tokens, at + 1, found)
  if (node.stems.size === 0) return
  for (let length = Math.min(token.length, longestStem); length >= SHORTEST_STEM; length--) {
    const stem = node.stems.get(token.slice(0, length))
    if (stem) follow(stem, tokens, at + 1, found)
  }
}

/** Whether two sets have a word in common. */
export const hasAny = (words: Words, ...wanted: Word[]): boolean => wanted.some((word) => words.has(word))
