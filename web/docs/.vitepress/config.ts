// The documentation as a site: its pages, how their Markdown becomes HTML, and what is built beside them. docs/index.md is its list of pages.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { defineConfig } from 'vitepress'
import { slugOf } from '../../../src/control/service/system/docs-search.ts'

const DOCS = join(import.meta.dirname, '../../../docs')
/** Stands for the service's address in lists for agents. */
const ORIGIN = '{{origin}}'

const read = (file: string): string => readFileSync(join(DOCS, `${file}.md`), 'utf8')
const titleOf = (file: string): string => /^# (.+)$/m.exec(read(file))![1]!

const contents = [...read('index').matchAll(/^## (.+)\n\n((?:- \[.*\n)+)/gm)].map(([, name, list]) => ({
  text: name!,
  items: [...list!.matchAll(/^- \[(.+?)\]\((.+?)\.md\)/gm)].map(([, text, file]) => ({ text: text!, link: `/${file!}` })),
}))
const pages = contents.flatMap(({ items }) => items.map(({ link }) => link.slice(1)))
const decisions = readdirSync(join(DOCS, 'decisions'))
  .sort()
  .map((name) => `decisions/${name.slice(0, -'.md'.length)}`)

/** https://llmstxt.org: a title, a summary, and lists of links. Decisions come under "Optional", which agents with little room leave out. */
const llms = (): string => {
  const lists = read('index')
    .replace(/^# .*\n\n/, (title) => `${title}> `)
    .replace(/^## For agents\n[^]*/m, '')
    .replaceAll(/\]\((.+?\.md)\)/g, `](${ORIGIN}/docs/$1)`)
  return `${lists}## Reference

- [OpenAPI document](${ORIGIN}/openapi.json): every call, with its fields and errors

## Optional

- [All pages as one text](${ORIGIN}/llms-full.txt): without the decisions
${decisions.map((file) => `- [${titleOf(file)}](${ORIGIN}/docs/${file}.md)`).join('\n')}
`
}

/** What is changed in files of VitePress. */
const MENDS: Record<string, readonly (readonly [from: string, to: string])[]> = {
  // It is a button with links inside options, which screen readers cannot tell apart. Here it is a dialog, and each link is an option.
  'VPLocalSearchBox.vue': [
    ['role="button"', 'role="dialog" aria-modal="true"'],
    [`:aria-owns="results?.length ? 'localsearch-list' : undefined"\n      aria-expanded="true"\n      aria-haspopup="listbox"`, ''],
    ['aria-autocomplete="both"', `role="combobox" aria-haspopup="listbox" :aria-expanded="results?.length ? 'true' : 'false'" aria-autocomplete="list"`],
    [`:id="'localsearch-item-' + index"\n            :aria-selected="selectedIndex === index ? 'true' : 'false'"\n            role="option"`, 'role="none"'],
    [
      `:aria-label="[...p.titles, p.title].join(' > ')"`,
      `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'" role="option"`,
    ],
    ['<kbd :aria-label', '<kbd role="img" :aria-label'],
  ],
  // It leaves out empty lines, by making markup of text, which the policy of the pages forbids.
  'copyCode.js': [[String.raw`clone.innerHTML = clone.innerHTML.replace(/\n+/g, "\n");`, '']],
}

function mended(text: string, file: string): string | undefined {
  return MENDS[file]?.reduce((before, [from, to]) => {
    if (!before.includes(from)) throw new Error(`${file} of VitePress has no ${from} any more`)
    return before.replaceAll(from, to)
  }, text)
}

export default defineConfig({
  srcDir: DOCS,
  cacheDir: join(import.meta.dirname, '../../../node_modules/.cache/vitepress'),
  base: '/docs/',
  lang: 'en',
  title: 'Cob docs',
  titleTemplate: ':title · Cob',
  description: 'How to use and operate Cob, a browser cloud for AI agents',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  cleanUrls: true,
  // What pages share is a file, and no inline script of each.
  metaChunk: true,
  markdown: {
    html: false,
    anchor: { slugify: slugOf },
    config(md) {
      // A cell without a text names no column.
      md.core.ruler.push('cells', ({ tokens }) => {
        for (const [at, token] of tokens.entries()) if (token.type === 'th_open' && tokens[at + 1]!.content === '') token.tag = tokens[at + 2]!.tag = 'td'
      })
      const fence = md.renderer.rules.fence!
      md.renderer.rules.fence = (tokens, at, ...rest) => {
        const file = /^\S+ (\S+\.\S+)/.exec(tokens[at]!.info)?.[1]
        return `${file === undefined ? '' : `<p class="file">${md.utils.escapeHtml(file)}</p>`}${fence(tokens, at, ...rest)}`
      }
    },
  },
  themeConfig: {
    nav: [{ text: 'API reference', link: '/api', target: '_self' }],
    sidebar: [
      ...contents,
      { text: 'Decisions', collapsed: true, link: '/decisions', items: decisions.map((file) => ({ text: titleOf(file), link: `/${file}` })) },
    ],
    outline: [2, 3],
    search: { provider: 'local', options: { miniSearch: { searchOptions: { boost: { title: 4, titles: 2, text: 1 } } } } },
  },
  vite: {
    publicDir: join(import.meta.dirname, '../public'),
    plugins: [
      { name: 'mends', enforce: 'pre', transform: (text, id) => (id.includes('/vitepress/dist/client/') ? mended(text, basename(id)) : undefined) },
      {
        name: 'list-of-decisions',
        enforce: 'pre',
        transform: (text, id) =>
          id === join(DOCS, 'decisions.md') ? `${text}\n${decisions.map((file) => `- [${titleOf(file)}](${file}.md)`).join('\n')}\n` : undefined,
      },
    ],
  },
  transformHead: ({ page }) => [['link', { rel: 'alternate', type: 'text/markdown', href: `/docs/${page}` }]],
  buildEnd({ outDir, pages: built }) {
    for (const page of built) copyFileSync(join(DOCS, page), join(outDir, page))
    writeFileSync(join(outDir, 'llms.txt'), llms())
    writeFileSync(join(outDir, 'llms-full.txt'), pages.map((file) => `<!-- /docs/${file}.md -->\n${read(file).trim()}\n`).join('\n'))
    mkdirSync(join(outDir, 'api'), { recursive: true })
    const swagger = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'))
    for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js']) copyFileSync(join(swagger, name), join(outDir, 'api', name))
  },
})
