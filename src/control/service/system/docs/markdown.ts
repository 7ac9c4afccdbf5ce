// Markdown of docs/ as HTML: headings with anchors, highlighted code, tables that scroll, links to pages of the site. Raw HTML is shown as text.
import GithubSlugger from 'github-slugger'
import MarkdownIt, { type Token } from 'markdown-it'
import { posix } from 'node:path'
import { highlight } from './highlight.ts'

export interface Heading {
  level: number
  id: string
  text: string
}

/** A heading and the text below it, up to the next one. */
export interface Section {
  id: string
  heading: string
  text: string
}

export interface Link {
  href: string
  /** A file of docs/, or, with `isOutside`, another one of the repository. */
  file: string
  anchor: string
  isOutside: boolean
}

export interface Rendered {
  title: string
  html: string
  headings: Heading[]
  sections: Section[]
  /** Relative links, to be checked. */
  links: Link[]
}

const parser = new MarkdownIt({ html: false, linkify: false, typographer: false })
export const escapeHtml = (text: string): string => parser.utils.escapeHtml(text)

parser.renderer.rules.fence = (tokens, at) => {
  const { content, info } = tokens[at]!
  const [word = '', file] = info.trim().split(/\s+/)
  const code = highlight(content, word) ?? escapeHtml(content)
  const caption = file !== undefined && file.includes('.') ? `<p class="file">${escapeHtml(file)}</p>` : ''
  return `<div class="code">${caption}<pre tabindex="0"><code>${code}</code></pre></div>\n`
}
parser.renderer.rules.code_block = (tokens, at) => `<div class="code"><pre tabindex="0"><code>${escapeHtml(tokens[at]!.content)}</code></pre></div>\n`
parser.renderer.rules.table_open = () => '<div class="table" role="group" aria-label="Table" tabindex="0"><table>\n'
parser.renderer.rules.table_close = () => '</table></div>\n'
parser.renderer.rules.heading_open = (tokens, at) => {
  const { tag, meta } = tokens[at] as Token & { meta: Heading }
  return tag === 'h1' ? '<h1>' : `<div class="heading"><${tag} id="${meta.id}">`
}
parser.renderer.rules.heading_close = (tokens, at) => {
  const { tag, meta } = tokens[at] as Token & { meta: Heading }
  return tag === 'h1' ? '</h1>\n' : `</${tag}><a class="anchor" href="#${meta.id}" aria-label="Link to: ${escapeHtml(meta.text)}">#</a></div>\n`
}

/** The address of a page, from its file in docs/ without the ending. */
export const pathOf = (file: string): string => (file === '' ? '/docs' : `/docs/${file}`)

/** Renders `source`, the content of `file` in docs/. @throws when it has no title */
export function renderMarkdown(file: string, source: string): Rendered {
  const slugger = new GithubSlugger()
  const tokens = parser.parse(source, {})
  const headings: Heading[] = []
  const sections: Section[] = []
  const links: Link[] = []
  for (const [at, token] of tokens.entries()) {
    if (token.type === 'heading_open') {
      const text = plain(tokens[at + 1]!)
      const heading = { level: Number(token.tag.slice(1)), id: slugger.slug(text), text }
      headings.push(heading)
      sections.push({ id: heading.level === 1 ? '' : heading.id, heading: text, text: '' })
      const close = tokens.slice(at).find(({ type }) => type === 'heading_close')!
      token.meta = close.meta = heading
    } else if (token.type === 'inline') {
      if (tokens[at - 1]!.type !== 'heading_open') addText(sections, plain(token))
      token.children = withLinks(file, token.children ?? [], links)
    } else if (token.type === 'fence' || token.type === 'code_block') addText(sections, token.content)
  }
  const title = headings.find(({ level }) => level === 1)?.text
  if (title === undefined) throw new Error(`docs/${file}.md has no title (a first line that begins with "# ")`)
  return { title, html: parser.renderer.render(tableCells(tokens), parser.options, {}), headings, sections, links }
}

function addText(sections: Section[], text: string): void {
  const last = sections.at(-1)
  if (last) last.text += `${last.text === '' ? '' : ' '}${text.replaceAll(/\s+/g, ' ').trim()}`
}

const plain = (inline: Token): string =>
  (inline.children ?? []).map(({ type, content }) => (type === 'softbreak' || type === 'hardbreak' ? ' ' : content)).join('')

/** Links to pages get the site's addresses. What else is in the repository has no address in an installation: there the path of the file follows the text. */
function withLinks(file: string, children: Token[], links: Link[]): Token[] {
  const shown: Token[] = []
  let outside: string | undefined
  for (const token of children) {
    if (token.type === 'link_open') {
      const href = String(token.attrGet('href'))
      const link = resolveLink(file, href)
      if (link) links.push(link)
      if (link?.isOutside) {
        outside = link.file
        continue
      }
      if (link) token.attrSet('href', pathOf(link.file.replace(/(^|\/)README$/, '')) + link.anchor)
      else token.attrSet('rel', 'noreferrer')
    } else if (token.type === 'link_close' && outside !== undefined) {
      const [text] = shown.slice(-1)
      if (text?.content !== outside) shown.push(textToken(token, 'text', ' ('), textToken(token, 'code_inline', outside), textToken(token, 'text', ')'))
      outside = undefined
      continue
    }
    shown.push(token)
  }
  return shown
}

function textToken(like: Token, type: 'text' | 'code_inline', content: string): Token {
  const Like = like.constructor as new (type: string, tag: string, nesting: number) => Token
  return Object.assign(new Like(type, type === 'text' ? '' : 'code', 0), { content })
}

/** Undefined for addresses with a scheme. */
function resolveLink(file: string, href: string): Link | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(href)) return undefined
  const [path = '', anchor] = href.split('#')
  const target = path === '' ? `${file}.md` : posix.normalize(posix.join(posix.dirname(file), decodeURI(path)))
  const isOutside = target.startsWith('../') || !target.endsWith('.md')
  return {
    href,
    file: isOutside ? posix.join('docs', target) : target.slice(0, -'.md'.length),
    anchor: anchor === undefined ? '' : `#${anchor}`,
    isOutside,
  }
}

/** Cells of tables without inline styles, which the policy of the pages forbids; header cells without text are no headers, and a row of them is left out. */
function tableCells(tokens: Token[]): Token[] {
  let kept: Token[] = []
  let head = 0
  let isEmpty = true
  for (const [at, token] of tokens.entries()) {
    const align = /text-align:\s*(\w+)/.exec(String(token.attrGet('style') ?? ''))?.[1]
    if (align !== undefined) token.attrs = [['class', align]]
    if (token.type === 'th_open') {
      if (tokens[at + 1]!.content !== '') isEmpty = false
      else token.tag = tokens[at + 2]!.tag = 'td'
    }
    if (token.type === 'thead_open') [head, isEmpty] = [kept.length, true]
    kept.push(token)
    if (token.type === 'thead_close' && isEmpty) kept = kept.slice(0, head)
  }
  return kept
}
