// Searches the documentation inside the service, for tools of agents. The documentation's pages have their own search index.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../../base/paths.ts'

export interface DocsHit {
  title: string
  /** `/docs/telemetry#the-archive`; with `.md` before the anchor it is the page as Markdown. */
  path: string
  heading: string
  /** Some words around a match. */
  excerpt: string
}

interface Section extends Omit<DocsHit, 'excerpt'> {
  text: string
  /** The first cells of its tables: settings, fields. */
  rows: string
}

const DOCS = join(PACKAGE_DIR, 'docs')
const MAX_QUERY = 200
const EXCERPT = 180
/** The weight of a match. Each repeated match in a text adds less, up to the weight of `text`. */
const WEIGHTS = { title: 8, heading: 6, rows: 3, text: 2 }
/** Decision records rank below pages that explain how something works. */
const DECISION_WEIGHT = 0.3

/** The anchor of a heading: the same as in code repositories, so that links work in both. */
export const slugOf = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-')

let reading: Promise<Section[]> | undefined

/** Every section of every page: a heading and the text until the next one. */
export async function sections(): Promise<Section[]> {
  reading ??= readSections().catch((error: unknown) => {
    reading = undefined
    throw error
  })
  return await reading
}

async function readSections(): Promise<Section[]> {
  const files = (await readdir(DOCS, { recursive: true })).filter((file) => file.endsWith('.md') && file !== 'index.md').sort()
  return (await Promise.all(files.map(async (file) => sectionsOf(file.slice(0, -'.md'.length), await readFile(join(DOCS, file), 'utf8'))))).flat()
}

function sectionsOf(file: string, markdown: string): Section[] {
  const found: Section[] = []
  const slugs = new Map<string, number>()
  let isCode = false
  for (const line of markdown.split('\n')) {
    if (line.startsWith('```')) isCode = !isCode
    const heading = isCode ? undefined : /^#+ (.+)/.exec(line)?.[1]?.replaceAll('`', '')
    if (heading === undefined) {
      const last = found.at(-1)
      if (last) last.text += `${line} `
      if (last && line.startsWith('|')) last.rows += line.split('|')[1]!
      continue
    }
    const slug = slugOf(heading)
    const times = slugs.get(slug) ?? 0
    slugs.set(slug, times + 1)
    const anchor = found.length === 0 ? '' : `#${slug}${times === 0 ? '' : `-${times}`}`
    found.push({ title: found[0]?.title ?? heading, path: `/docs/${file}${anchor}`, heading, text: '', rows: '' })
  }
  return found.map((section) => ({ ...section, text: section.text.replaceAll(/\s+/g, ' ').trim() }))
}

/** Sections with words of the query, best first. */
export async function search(query: string, limit: number): Promise<DocsHit[]> {
  const words = [
    ...new Set(
      query
        .slice(0, MAX_QUERY)
        .toLowerCase()
        .match(/[\p{L}\p{N}_]+/gu),
    ),
  ]
  const hits = (await sections()).map((section) => ({ section, score: 0, matches: 0 }))
  for (const word of words) {
    const counts = hits.map(({ section }) => countOf(section, word))
    // A word that few sections have counts more.
    const weight = Math.log(1 + hits.length / (1 + counts.filter((count) => count > 0).length))
    for (const [at, hit] of hits.entries()) {
      hit.score += counts[at]! * weight
      if (counts[at]! > 0) hit.matches++
    }
  }
  const rank = ({ section, score, matches }: (typeof hits)[number]): number =>
    score * (matches / words.length) ** 2 * (section.path.startsWith('/docs/decisions/') ? DECISION_WEIGHT : 1)
  return hits
    .filter(({ matches }) => matches > 0)
    .sort((a, b) => rank(b) - rank(a))
    .slice(0, limit)
    .map(({ section: { title, path, heading, text } }) => ({ title, path, heading, excerpt: excerpt(text, words) }))
}

/** The weight of a word in a section, as a whole word or as a prefix. */
function countOf(section: Section, word: string): number {
  const begins = new RegExp(`(?<![\\p{L}\\p{N}])${word}`, 'gu')
  const times = (where: 'title' | 'heading' | 'rows' | 'text'): number => section[where].toLowerCase().match(begins)?.length ?? 0
  const named = (['title', 'heading', 'rows'] as const).reduce((sum, where) => sum + (times(where) > 0 ? WEIGHTS[where] : 0), 0)
  return named + WEIGHTS.text * (1 - 1 / (1 + times('text')))
}

function excerpt(text: string, words: string[]): string {
  const lower = text.toLowerCase()
  // The longest word is the most specific.
  const place = words
    .toSorted((a, b) => b.length - a.length)
    .map((word) => lower.indexOf(word))
    .find((at) => at >= 0)
  const from = Math.max(0, (place ?? 0) - EXCERPT / 3)
  const start = from === 0 ? 0 : text.indexOf(' ', from) + 1
  const cut = text.slice(start, start + EXCERPT)
  const isWhole = start + EXCERPT >= text.length
  return `${start > 0 ? '… ' : ''}${isWhole ? cut : `${cut.slice(0, Math.max(cut.lastIndexOf(' '), 1))} …`}`
}
