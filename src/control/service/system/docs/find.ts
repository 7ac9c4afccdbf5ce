// The search index of the documentation and what is found in it: the same in the service and in the pages' script.
import MiniSearch, { type Options } from 'minisearch'

/** A section of a page. */
export interface Entry {
  /** Path and anchor. */
  path: string
  title: string
  heading: string
  text: string
}

export interface DocsHit {
  title: string
  /** `/docs/telemetry#the-archive` */
  path: string
  heading: string
  /** Some words around a match. */
  excerpt: string
}

/** Words, and besides names such as `COB_PORT` and `timeout_seconds` as a whole, so that those who look for one find it first. */
const tokenize = (text: string): string[] => [...MiniSearch.getDefault('tokenize')(text), ...(text.match(/\w*[^\W_]_[^\W_]\w*/g) ?? [])]

const OPTIONS: Options<Entry> = { idField: 'path', fields: ['title', 'heading', 'text'], storeFields: ['title', 'heading', 'text'], tokenize }
const SEARCH = {
  boost: { title: 4, heading: 3 },
  // Most sections with a long text are tables of settings or fields, each row of which stands for itself: length counts less than usual (0.7).
  bm25: { k: 1.2, b: 0.2, d: 0.5 },
  prefix: (term: string) => term.length > 2,
  fuzzy: (term: string) => (term.length > 4 ? 0.2 : false),
  // Why something was built comes after how it works.
  boostDocument: (path: unknown) => (String(path).startsWith('/docs/decisions/') ? 0.3 : 1),
} as const
const MAX_QUERY = 200
const EXCERPT = 180

/** The index as text. */
export function makeIndex(entries: Entry[]): string {
  const index = new MiniSearch(OPTIONS)
  index.addAll(entries)
  return JSON.stringify(index)
}

/** Sections with all words of the query, best first; with some of them when no section has all. */
export function openIndex(text: string): (query: string, limit: number) => DocsHit[] {
  const index = MiniSearch.loadJSON(text, OPTIONS)
  return (query, limit) => {
    const words = query.slice(0, MAX_QUERY)
    let found = index.search(words, { ...SEARCH, combineWith: 'AND' })
    if (found.length === 0) found = index.search(words, { ...SEARCH, combineWith: 'OR' })
    return found.slice(0, limit).map(({ id, title, heading, text: body, terms }) => ({
      title: String(title),
      path: String(id),
      heading: String(heading),
      excerpt: excerpt(String(body), terms),
    }))
  }
}

function excerpt(text: string, terms: string[]): string {
  const lower = text.toLowerCase()
  // The longest term tells most.
  const place = terms
    .toSorted((a, b) => b.length - a.length)
    .map((term) => lower.indexOf(term))
    .find((at) => at >= 0)
  const from = Math.max(0, (place ?? 0) - EXCERPT / 3)
  const start = from === 0 ? 0 : text.indexOf(' ', from) + 1
  const cut = text.slice(start, start + EXCERPT)
  const isWhole = start + EXCERPT >= text.length
  return `${start > 0 ? '… ' : ''}${isWhole ? cut : `${cut.slice(0, Math.max(cut.lastIndexOf(' '), 1))} …`}`
}
