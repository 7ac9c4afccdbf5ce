// One page of the documentation as HTML. No script and no style is inline, so that the policy of the pages can forbid both.
import { CONTENTS, DECISIONS } from './contents.ts'
import { escapeHtml, pathOf, type Heading } from './markdown.ts'

export interface PageLink {
  path: string
  title: string
}

export interface PageParts {
  path: string
  title: string
  html: string
  headings: Heading[]
  /** The same page as Markdown. */
  markdown?: string
  previous?: PageLink | undefined
  next?: PageLink | undefined
}

const link = ({ path, title }: PageLink, more = ''): string => `<a href="${path}"${more}>${escapeHtml(title)}</a>`

function navigation(titles: ReadonlyMap<string, string>, path: string): string {
  const item = (page: PageLink) => `<li>${link(page, page.path === path ? ' aria-current="page"' : '')}</li>`
  const groups = CONTENTS.map(({ name, pages }) => ({ name, pages: pages.map(([file]) => ({ path: pathOf(file), title: titles.get(file)! })) }))
  groups.push({
    name: 'Reference',
    pages: [
      { path: '/docs/api', title: 'API reference' },
      { path: '/openapi.json', title: 'OpenAPI document' },
      { path: '/llms.txt', title: 'llms.txt' },
    ],
  })
  groups.push({
    name: 'Decisions',
    pages: [
      { path: pathOf(DECISIONS), title: 'All decisions' },
      { path: pathOf(`${DECISIONS}/dependencies`), title: titles.get(`${DECISIONS}/dependencies`)! },
    ],
  })
  return groups.map(({ name, pages }) => `<h2>${name}</h2><ul>${pages.map(item).join('')}</ul>`).join('\n')
}

function onThisPage(headings: Heading[]): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3)
  if (shown.length < 2) return ''
  const items = shown.map(({ level, id, text }) => `<li${level === 3 ? ' class="inner"' : ''}><a href="#${id}">${escapeHtml(text)}</a></li>`)
  return `<nav class="toc" aria-label="On this page"><p>On this page</p><ul>${items.join('')}</ul></nav>`
}

const around = (word: string, page: PageLink | undefined, rel: string): string =>
  page ? `<a class="${rel}" rel="${rel}" href="${page.path}"><span>${word}</span> ${escapeHtml(page.title)}</a>` : ''

/** The whole document. `titles` are those of all pages, by their files. */
export function page(titles: ReadonlyMap<string, string>, { path, title, html, headings, markdown, previous, next }: PageParts): string {
  const neighbours =
    previous || next
      ? `<nav class="around" aria-label="Previous and next page">${around('Previous', previous, 'prev')}${around('Next', next, 'next')}</nav>`
      : ''
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Cob</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/docs.css">
${markdown === undefined ? '' : `<link rel="alternate" type="text/markdown" href="${markdown}">\n`}<script type="module" src="/docs/assets/docs.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<a class="brand" href="/docs">Cob <span>docs</span></a>
<button type="button" id="find" hidden aria-haspopup="dialog">Search <kbd>/</kbd></button>
<a class="narrow" href="#contents">Contents</a>
<a class="wide" href="/docs/api">API reference</a>
</header>
<div class="columns">
<main id="content" tabindex="-1">
<article>
${html}</article>
${markdown === undefined ? '' : `<p class="source"><a href="${markdown}">This page as Markdown</a></p>\n`}${neighbours}
</main>
${onThisPage(headings)}
<nav id="contents" class="contents" aria-label="Contents" tabindex="-1">
${navigation(titles, path)}
</nav>
</div>
</body>
</html>
`
}
