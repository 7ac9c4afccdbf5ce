// Searches the documentation of this installation, by sections. The index is made at the first search, and kept: the files do not change while the
// service runs.
import MiniSearch from 'minisearch'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PACKAGE_DIR } from './paths.ts'

export interface DocsResult {
  /** Of the page. */
  title: string
  /** The page's file below the installation, such as `docs/network.md`. */
  path: string
  /** Of the section; '' for the beginning of the page. */
  heading: string
  /** The beginning of the section's text. */
  excerpt: string
}

export type SearchDocs = (query: string, limit: number) => Promise<DocsResult[]>

interface Section extends DocsResult {
  id: number
  text: string
}

const EXCERPT = 800
/** A longer question costs time, and its further words find nothing better. */
const MAX_QUERY = 1_000

/** The pages of `dir`, a folder of Markdown files; by default the guides of this installation. */
export function makeDocsSearch(dir = join(PACKAGE_DIR, 'docs')): SearchDocs {
  let made: Promise<MiniSearch<Section>> | undefined
  const index = () =>
    (made ??= makeIndex(dir).catch((error: unknown) => {
      made = undefined
      throw error
    }))
  return async (query, limit) => {
    const found = (await index()).search(query.slice(0, MAX_QUERY)) as unknown as Section[]
    return found.slice(0, limit).map(({ title, path, heading, excerpt }) => ({ title, path, heading, excerpt }))
  }
}

async function makeIndex(dir: string): Promise<MiniSearch<Section>> {
  const names = (await readdir(dir)).filter((name) => name.endsWith('.md')).sort()
  const pages = await Promise.all(names.map(async (name) => sectionsOf(`docs/${name}`, await readFile(join(dir, name), 'utf8'))))
  const index = new MiniSearch<Section>({
    fields: ['title', 'heading', 'text'],
    storeFields: ['title', 'path', 'heading', 'excerpt'],
    searchOptions: { boost: { title: 3, heading: 2 }, prefix: (term) => term.length > 3, fuzzy: (term) => (term.length > 4 ? 0.2 : false) },
  })
  index.addAll(pages.flat().map((section, id) => ({ ...section, id })))
  return index
}

/** A page's sections, by its headings. What stands in a block of code is no heading. */
export function sectionsOf(path: string, markdown: string): Omit<Section, 'id'>[] {
  const parts: { heading: string; lines: string[] }[] = [{ heading: '', lines: [] }]
  let title = path
  let fence: string | undefined
  for (const line of markdown.split('\n')) {
    const mark = /^\s*(```+|~~~+)/.exec(line)?.[1]
    if (mark !== undefined && (fence === undefined || mark.startsWith(fence))) fence = fence === undefined ? mark : undefined
    const [, level, heading] = (fence === undefined && /^(#{1,6})\s+(.*)$/.exec(line)) || []
    if (level === undefined) parts.at(-1)!.lines.push(line)
    else if (level === '#' && title === path) title = heading!.trim()
    else parts.push({ heading: heading!.trim(), lines: [] })
  }
  return parts.flatMap(({ heading, lines }) => {
    const text = lines.join('\n').trim()
    if (text === '') return []
    return [{ title, path, heading, text, excerpt: text.length > EXCERPT ? `${text.slice(0, EXCERPT)}…` : text }]
  })
}
