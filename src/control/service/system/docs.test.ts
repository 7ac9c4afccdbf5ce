// The documentation as a site: what is served, to whom, and that no page leads nowhere.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { PACKAGE_DIR } from '../../../base/paths.ts'
import { search } from './docs-search.ts'
import { brokenLinks, buildSite, readPages } from './docs/build.ts'
import { CONTENTS, DECISIONS, listedPages } from './docs/contents.ts'
import { renderMarkdown } from './docs/markdown.ts'

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())

const get = (path: string, headers: Record<string, string> = {}) => fetch(cloud.url + path, { headers })
const isThere = (file: string): boolean => existsSync(join(PACKAGE_DIR, file))

describe('the pages', () => {
  const pages = readPages()

  test('are all in the contents, and each is there once', () => {
    const files = readdirSync(join(PACKAGE_DIR, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => name.slice(0, -'.md'.length))
    expect(pages.map(({ file }) => file).toSorted()).toEqual(files.toSorted())
    expect(new Set(pages.map(({ title }) => title)).size).toBe(pages.length)
  })

  test('have no links that lead nowhere: to pages, to headings, to files of the repository', () => {
    expect(brokenLinks(pages, isThere)).toEqual([])
    expect(pages.flatMap(({ links }) => links).length).toBeGreaterThan(200)
  })

  test('and a link that leads nowhere is found', () => {
    const source =
      '# A\n\n## Part\n\n[1](#part) [2](#parts) [3](b.md) [4](../src/nothing.ts) [5](decisions/0001-one-package.md) [6](security.md#nothing) [7](/docs/api)\n'
    const page = { ...renderMarkdown('start', source), file: 'start', markdown: source }
    const all = [...pages.filter(({ file }) => file !== 'start'), page]
    expect(brokenLinks(all, isThere).filter((line) => line.startsWith('docs/start.md:'))).toEqual(
      ['#parts', 'b.md', '../src/nothing.ts', 'security.md#nothing', '/docs/api'].map((href) => `docs/start.md: ${href}`),
    )
  })

  test('are linked from README.md by names that exist', () => {
    const links = [...readFileSync(join(PACKAGE_DIR, 'README.md'), 'utf8').matchAll(/\]\(docs\/([\w./-]+)\.md(#[\w-]+)?\)/g)]
    const anchors = new Map(pages.map(({ file, headings }) => [file, headings.map(({ id }) => `#${id}`)]))
    expect(links.length).toBeGreaterThan(20)
    expect(
      links.filter(([, file, anchor]) => !anchors.has(file!) || (anchor !== undefined && !anchors.get(file!)!.includes(anchor))).map(([link]) => link),
    ).toEqual([])
  })

  test('every link and every part of every page is answered by the service', async () => {
    const site = buildSite(pages)
    const paths = new Set(
      [...site.values()]
        .filter(({ type }) => type.startsWith('text/html'))
        .flatMap(({ body }) => [...body.matchAll(/(?:src|href)="(\/[^"#]*)/g)].map(([, path]) => path!)),
    )
    expect(paths.size).toBeGreaterThan(pages.length)
    const failed: string[] = []
    for (const path of paths) {
      const response = await get(path)
      await response.arrayBuffer()
      if (response.status !== 200) failed.push(`${response.status} ${path}`)
    }
    expect(failed).toEqual([])
  })
})

describe('Markdown', () => {
  const html = (source: string) => renderMarkdown('start', `# T\n\n${source}`).html

  test('shows HTML as text, and makes no link that runs a script', () => {
    const shown = html(
      '<script>alert(1)</script> <img src=x onerror=alert(1)>\n\n<iframe></iframe>\n\n[a](javascript:alert(1)) [b](data:text/html,x) `<b>`\n\n```html\n<script>\n```',
    )
    expect(shown).not.toMatch(/<(script|img|iframe|b)\b/)
    expect(shown).not.toMatch(/href="(javascript|data):/)
    expect(shown).toContain('&lt;script&gt;')
  })

  test('gives headings the anchors that repositories show, also when they are the same', () => {
    expect(renderMarkdown('start', "# T\n\n## 7. Chromium's own `sandbox`\n\n## Keys\n\n### Keys\n").headings.map(({ id }) => id)).toEqual([
      't',
      '7-chromiums-own-sandbox',
      'keys',
      'keys-1',
    ])
  })

  test('links pages by their addresses here, and names files that have none', () => {
    expect(html('[a](telemetry.md#x) [b](#y) [c](https://x.test/) [the chart](../charts/cob/README.md)')).toContain(
      '<a href="/docs/telemetry#x">a</a> <a href="/docs/start#y">b</a> <a href="https://x.test/" rel="noreferrer">c</a> the chart (<code>charts/cob/README.md</code>)',
    )
    expect(renderMarkdown(`${DECISIONS}/0001-x`, '# T\n\n[a](../security.md) [b](0002-y.md)').html).toMatch(/"\/docs\/security".*"\/docs\/decisions\/0002-y"/)
  })

  test('has no inline styles and no headers without a text in tables', () => {
    const shown = html('| | n |\n|---|---:|\n| a | 1 |\n\n| | |\n|---|---|\n| b | c |\n')
    expect(shown).not.toContain('style=')
    expect(shown).toContain('<td></td>\n<th class="right">n</th>')
    expect(shown.match(/<thead>/g)).toHaveLength(1)
  })

  test('refuses a page without a title', () => {
    expect(() => renderMarkdown('x', 'no title')).toThrow('docs/x.md has no title')
  })
})

describe('GET /docs', () => {
  test('is answered without a key, under a policy without inline scripts and styles', async () => {
    const response = await get('/docs')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toMatch(/default-src 'none'; script-src 'self'; style-src 'self';.*frame-ancestors 'none'; require-trusted-types-for 'script'/)
    expect(policy).not.toContain('unsafe')
    const page = await response.text()
    expect(page).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/)
    for (const { name } of CONTENTS) expect(page).toContain(`<h2>${name}</h2>`)
  })

  test('has a page for each file, and the same as Markdown', async () => {
    const page = await (await get('/docs/telemetry')).text()
    expect(page).toMatch(/<title>Telemetry · Cob<\/title>/)
    expect(page).toContain('aria-current="page">Telemetry</a>')
    const markdown = await get('/docs/telemetry.md')
    expect(markdown.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    expect(await markdown.text()).toBe(readFileSync(join(PACKAGE_DIR, 'docs/telemetry.md'), 'utf8'))
    expect((await get('/docs/telemetry/')).status).toBe(200)
  })

  test('links the previous and the next page, in the order of the contents', async () => {
    const [, second, third] = listedPages().map(([file]) => file)
    const page = await (await get(`/docs/${second!}`)).text()
    expect(page).toMatch(new RegExp(`rel="prev" href="/docs/start".*rel="next" href="/docs/${third!}"`))
  })

  test('is compressed for those who accept it, and not sent again to those who have it', async () => {
    const response = await get('/docs/security', { 'accept-encoding': 'gzip' })
    expect([response.headers.get('content-encoding'), response.headers.get('vary')]).toEqual(['gzip', 'accept-encoding'])
    const page = await response.text()
    for (const accepted of ['identity', 'gzip;q=0', 'br']) {
      const plain = await get('/docs/security', { 'accept-encoding': accepted })
      expect([plain.headers.get('content-encoding'), await plain.text()]).toEqual([null, page])
    }
    const again = await get('/docs/security', { 'if-none-match': response.headers.get('etag')! })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect((await get('/docs/security', { 'if-none-match': 'W/"other"' })).status).toBe(200)
  })

  test.each([
    '/docs/nothing',
    '/docs/nothing.js',
    '/docs/../package.json',
    '/docs/%2e%2e/package.json',
    '/docs/api/swagger-ui.css/x',
    '/docs/api/nothing',
    '/docs/%00',
  ])('does not serve other files: %s', async (path) => {
    expect([400, 404]).toContain((await get(path)).status)
  })

  test('says that there is no such page: to people as a page, to programs as an error', async () => {
    const page = await get('/docs/nothing', { accept: 'text/html' })
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(await page.text()).toContain('There is no such page')
    expect(await (await get('/docs/nothing', { accept: '*/*' })).json()).toMatchObject({ code: 'not_found', message: 'there is no page "/docs/nothing"' })
  })

  test('answers HEAD without a body, and other methods with 405', async () => {
    const head = await fetch(`${cloud.url}/docs/start`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (const path of ['/docs', '/llms.txt', '/llms-full.txt']) expect([path, (await fetch(cloud.url + path, { method: 'POST' })).status]).toEqual([path, 405])
  })
})

describe('/docs/api', () => {
  test('is a page that loads only files of this service', async () => {
    const response = await get('/docs/api')
    const page = await response.text()
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(response.headers.get('content-security-policy')).toMatch(/default-src 'self'/)
    const parts = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path!)
    expect(parts.length).toBeGreaterThan(3)
    for (const path of parts) {
      expect(path).toMatch(/^\/docs/)
      const part = await get(path)
      expect([part.status, part.headers.get('x-content-type-options'), (await part.text()).length > 50]).toEqual([200, 'nosniff', true])
    }
  })
})

describe('for agents', () => {
  test('/llms.txt has a title, a summary and lists of links that are answered', async () => {
    const response = await get('/llms.txt')
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    const text = await response.text()
    expect(text).toMatch(/^# Cob\n\n> .+\n\n## Start\n\n- \[/)
    const links = [...text.matchAll(/^- \[[^\]]+\]\(([^)]+)\)/gm)].map(([, url]) => url!)
    expect(links.length).toBeGreaterThan(listedPages().length)
    for (const url of [...links.slice(0, 3), links.at(-1)!]) {
      expect(url.startsWith(`${cloud.url}/`)).toBe(true)
      expect((await fetch(url)).status).toBe(200)
    }
  })

  test('/llms-full.txt has every page, and no decision', async () => {
    const text = await (await get('/llms-full.txt')).text()
    for (const [file] of listedPages()) expect(text).toContain(`<!-- /docs/${file}.md -->`)
    expect(text).not.toContain('/docs/decisions/0001')
  })
})

describe('searching', () => {
  test('finds sections by their words, titles first, decisions last', async () => {
    const [first] = await search('changing the key', 5)
    expect(first).toMatchObject({ title: 'Credentials', path: '/docs/credentials#changing-the-key', heading: 'Changing the key' })
    for (const setting of ['COB_PUBLIC_URL', 'COB_REGION', 'public url'])
      expect([setting, (await search(setting, 4)).map(({ path }) => path.split('#')[0])]).toEqual([setting, expect.arrayContaining(['/docs/settings'])])
    expect((await search('COB_PUBLIC_URL', 20)).map(({ excerpt }) => excerpt).join()).toContain('COB_PUBLIC_URL')
    const found = (await search('profiles', 50)).map(({ path }) => path)
    expect(found[0]).toBe('/docs/profiles')
  })

  test('forgives a typing error, knows beginnings of words, and is bounded', async () => {
    expect((await search('kubernets', 3)).map(({ path }) => path)).toContain('/docs/kubernetes')
    expect((await search('telem', 3)).length).toBe(3)
    expect(await search('the', 2)).toHaveLength(2)
    expect(await search('', 5)).toEqual([])
    expect(await search('xyzzyplugh', 5)).toEqual([])
    for (const { excerpt } of await search('session', 50)) expect(excerpt.length).toBeLessThan(200)
    const before = performance.now()
    await search('session '.repeat(100_000), 5)
    expect(performance.now() - before).toBeLessThan(2000)
  })
})
