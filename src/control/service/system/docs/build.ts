// The documentation as it is served: pages, the same as Markdown, lists for agents, and the search index. Made from docs/ of this installation.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../../../base/paths.ts'
import { CONTENTS, DECISIONS, listedPages } from './contents.ts'
import { makeIndex } from './find.ts'
import { escapeHtml, pathOf, renderMarkdown, type Rendered } from './markdown.ts'
import { page, type PageLink } from './page.ts'

export interface Part {
  type: string
  body: string
}

/** Stands for the service's origin in lists for agents. */
export const ORIGIN = '{{origin}}'

const SUMMARY =
  'Cob runs browsers for AI agents on your own machine. It speaks the interface of the Kernel browser API, so the published SDKs work with another address.'
const HTML = 'text/html; charset=utf-8'
const MARKDOWN = 'text/markdown; charset=utf-8'
const TEXT = 'text/plain; charset=utf-8'

interface Source extends Rendered {
  file: string
  about?: string
  markdown: string
}

/** All pages, rendered, in the order of the contents, decisions last. */
export function readPages(dir = join(PACKAGE_DIR, 'docs')): Source[] {
  const read = (file: string, about?: string): Source => {
    const markdown = readFileSync(join(dir, `${file}.md`), 'utf8')
    return { ...renderMarkdown(file, markdown), file, markdown, ...(about !== undefined && { about }) }
  }
  const decisions = readdirSync(join(dir, DECISIONS))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => read(`${DECISIONS}/${name.slice(0, -'.md'.length)}`))
  return [...listedPages().map(([file, about]) => read(file, about)), ...decisions]
}

/** What is served, by path. The search index is the part `/docs/assets/index.json`. */
export function buildSite(pages = readPages()): Map<string, Part> {
  const parts = new Map<string, Part>()
  const titles = new Map(pages.map(({ file, title }) => [file, title]))
  const links = pages.map(({ file, title }): PageLink => ({ path: pathOf(file), title }))
  for (const [at, { file, title, html, headings, markdown }] of pages.entries()) {
    const path = pathOf(file)
    const [previous, next] = [links[at - 1] ?? { path: pathOf(''), title: 'All pages' }, links[at + 1]]
    parts.set(path, { type: HTML, body: page(titles, { path, title, html, headings, markdown: `${path}.md`, previous, next }) })
    parts.set(`${path}.md`, { type: MARKDOWN, body: markdown })
  }
  const list = (path: string, title: string, html: string) =>
    parts.set(path, { type: HTML, body: page(titles, { path, title, html: `<h1>${title}</h1>\n${html}`, headings: [] }) })
  list(pathOf(''), 'Cob', home(titles))
  list(pathOf(DECISIONS), 'Decisions', decisionList(pages))
  list('/docs/404', 'There is no such page', '<p>Search for it, or see the contents: they list every page.</p>\n')
  parts.set('/llms.txt', { type: TEXT, body: llms(pages) })
  parts.set('/llms-full.txt', { type: TEXT, body: llmsFull(pages) })
  parts.set('/docs/assets/index.json', { type: 'application/json; charset=utf-8', body: makeIndex(pages.flatMap(sectionsOf)) })
  return parts
}

const sectionsOf = ({ file, title, sections }: Source) =>
  sections
    .filter(({ id, text }) => id === '' || text !== '')
    .map(({ id, heading, text }) => ({ path: pathOf(file) + (id === '' ? '' : `#${id}`), title, heading, text }))

function home(titles: ReadonlyMap<string, string>): string {
  const groups = CONTENTS.map(({ name, pages }) => {
    const items = pages.map(([file, about]) => `<li><a href="${pathOf(file)}">${escapeHtml(titles.get(file)!)}</a><span>${escapeHtml(about)}</span></li>`)
    return `<h2>${name}</h2>\n<ul class="cards">\n${items.join('\n')}\n</ul>\n`
  })
  return `<p class="lead">${SUMMARY}</p>
<p><a class="go" href="${pathOf('start')}">Start here</a> <a class="go second" href="/docs/api">API reference</a></p>
${groups.join('')}<p>Agents read the same pages as Markdown: add <code>.md</code> to an address, or begin with <a href="/llms.txt">llms.txt</a>.</p>
`
}

function decisionList(pages: Source[]): string {
  const items = pages
    .filter(({ file }) => file.startsWith(`${DECISIONS}/`))
    .map(({ file, title }) => `<li><a href="${pathOf(file)}">${escapeHtml(title)}</a></li>`)
  return `<p>Why it is built the way it is, one page for each decision.</p>\n<ul class="plain">\n${items.join('\n')}\n</ul>\n`
}

/** https://llmstxt.org: a title, a summary, and lists of links. Decisions come under "Optional", which agents with little room leave out. */
function llms(pages: Source[]): string {
  const titles = new Map(pages.map(({ file, title }) => [file, title]))
  const line = (file: string, about?: string) => `- [${titles.get(file)!}](${ORIGIN}${pathOf(file)}.md)${about === undefined ? '' : `: ${about}`}`
  const groups = CONTENTS.map(({ name, pages: listed }) => `## ${name}\n\n${listed.map(([file, about]) => line(file, about)).join('\n')}`)
  const reference = `## Reference\n\n- [OpenAPI document](${ORIGIN}/openapi.json): every call, with its fields and errors`
  const optional = `## Optional\n\n- [All pages as one text](${ORIGIN}/llms-full.txt): without the decisions\n${pages
    .filter(({ about }) => about === undefined)
    .map(({ file }) => line(file))
    .join('\n')}`
  return `# Cob\n\n> ${SUMMARY}\n\n${[...groups, reference, optional].join('\n\n')}\n`
}

const llmsFull = (pages: Source[]): string =>
  pages
    .filter(({ about }) => about !== undefined)
    .map(({ file, markdown }) => `<!-- ${pathOf(file)}.md -->\n${markdown.trim()}\n`)
    .join('\n')

/** Links between pages that lead nowhere, as `file: link`. `exists` says whether a file of the repository does. */
export function brokenLinks(pages: Source[], exists: (file: string) => boolean): string[] {
  const anchors = new Map(pages.map(({ file, headings }) => [file, new Set(headings.map(({ id }) => `#${id}`))]))
  const isBroken = ({ file, anchor, isOutside }: Rendered['links'][number]): boolean =>
    isOutside ? !exists(file) : anchor === '' ? !anchors.has(file) : !anchors.get(file)?.has(anchor)
  return pages.flatMap(({ file, links }) => links.filter(isBroken).map(({ href }) => `docs/${file}.md: ${href}`))
}
