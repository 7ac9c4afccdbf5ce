// The typing rhythm of a person, and their typos. Pure numbers; the keyboard plays them.

/** One keypress of a text: a character or a correction. */
export interface Keypress {
  /** A character, or undefined for Backspace. */
  character: string | undefined
  /** Milliseconds since the previous press. */
  waitMs: number
  /** Milliseconds the key stays down. */
  holdMs: number
}

/** Mean time between keys of a practised typist; with the pauses below about 130 words a minute of prose. */
const MEAN_MS = 85
/** How long keys are down; never more than half the time to the next one. */
const HOLD_MS = { least: 25, most: 70 }
/** Where people pause, as multiples of the mean: between words, and after a sentence, a line, or a clause. */
const PAUSES = { word: 1.3, clause: 2.2, sentence: 3.5 }
/** Two letters that often occur together are typed faster. */
const BURST = 0.75
const COMMON_PAIRS = new Set(
  'th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce'.split(' '),
)
/** Time to notice a mistake and begin to correct it, as multiples of the mean. */
const NOTICE = 3

/** Keys beside each letter on a US keyboard, row by row. */
const ROWS = ['qwertyuiop', 'asdfghjkl', 'zxcvbnm']
/** At most this many more keys are typed before a mistake is noticed. */
const UNNOTICED = 2

/** Even typing: `delayMs` from one character to the next. */
export function evenTyping(characters: readonly string[], delayMs: number): Keypress[] {
  return characters.map((character, index) => ({ character, waitMs: index === 0 ? 0 : delayMs, holdMs: 0 }))
}

/**
 * Types as a person does: uneven, with pauses between words. With `typoChance`, that fraction of the letters is first mistyped (a neighbouring key, a
 * doubled letter, or two letters swapped) and corrected after at most two more keys. The resulting text is always exactly the given one. `random`
 * gives numbers in [0, 1); a seeded one makes it repeatable.
 */
export function humanTyping(characters: readonly string[], meanMs: number | undefined, typoChance: number, random: () => number): Keypress[] {
  const mean = meanMs ?? MEAN_MS
  const keys: Keypress[] = []
  const press = (character: string | undefined, times = 1) => {
    const before = keys.at(-1)
    const waitMs = before ? mean * times * unevenness(random) : 0
    if (before) before.holdMs = Math.min(before.holdMs, waitMs / 2)
    keys.push({ character, waitMs, holdMs: HOLD_MS.least + random() * (HOLD_MS.most - HOLD_MS.least) })
  }
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!
    const times = pauseBefore(characters[at - 1], character)
    const wrong = random() < typoChance ? mistake(character, characters[at + 1], random) : undefined
    if (wrong) {
      const after = wrong.goesOn ? characters.slice(at + 1, at + 1 + Math.floor(random() * (UNNOTICED + 1))).filter(isLetter) : []
      const typed = [...wrong.characters, ...after]
      typed.forEach((instead, index) => press(instead, index === 0 ? times : 1))
      typed.forEach((_, index) => press(undefined, index === 0 ? NOTICE : 1))
    }
    press(character, times)
  }
  return keys
}

/** Log-normal around 1, like measured times between keys: many a little faster, few much slower. Its mean is 1. */
function unevenness(random: () => number): number {
  const sigma = 0.3
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return Math.min(4, Math.exp(sigma * normal - (sigma * sigma) / 2))
}

function pauseBefore(previous: string | undefined, character: string): number {
  if (previous === undefined) return 1
  if (/[.!?\n]/.test(previous)) return PAUSES.sentence
  if (/[,;:]/.test(previous)) return PAUSES.clause
  if (previous === ' ') return PAUSES.word
  return COMMON_PAIRS.has((previous + character).toLowerCase()) ? BURST : 1
}

const isLetter = (character: string): boolean => /^[a-z]$/i.test(character)

/** The typo in place of a letter; undefined for characters that people do not mistype. */
function mistake(character: string, next: string | undefined, random: () => number): { characters: string[]; goesOn: boolean } | undefined {
  if (!isLetter(character)) return undefined
  const kind = random()
  if (kind < 0.2) return { characters: [character, character], goesOn: false }
  if (kind < 0.4 && next !== undefined && isLetter(next) && next !== character) return { characters: [next, character], goesOn: false }
  return { characters: [neighbour(character, random)], goesOn: true }
}

function neighbour(letter: string, random: () => number): string {
  const small = letter.toLowerCase()
  const row = ROWS.find((keys) => keys.includes(small))!
  const at = row.indexOf(small)
  const beside = [row[at - 1], row[at + 1]].filter((key) => key !== undefined)
  const found = beside[Math.floor(random() * beside.length)]!
  return letter === small ? found : found.toUpperCase()
}
