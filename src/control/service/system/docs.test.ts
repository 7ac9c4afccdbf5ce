// The documentation as a site: what is served, to which callers, and that no link is dead. VitePress fails for a link to a page that does not exist.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { buildDocs } from '../../../../web/docs/build.ts'
import { PACKAGE_DIR } from '../../../base/paths.ts'
import { search, sections } from './docs-search.ts'

const BUILD_MS = 300_000
const DOCS = join(PACKAGE_DIR, 'docs')
const files = globSync('**/*.md', { cwd: DOCS }).map((name) => name.slice(0, -'.md'.length))
const listed = [...readFileSync(join(DOCS, 'index.md'), 'utf8').matchAll(/^- \[.+?\]\((.+?)\.md\): \S/gm)].map(([, file]) => file!)

let cloud: FastCloud
let built: string
beforeAll(async () => {
  built = await buildDocs()
  cloud = await startFastCloud()
}, BUILD_MS)
afterAll(() => cloud[Symbol.asyncDispose]())

const get = (path: string, headers: Record<string, string> = {}) => fetch(cloud.url + path, { headers })
const html = (file: string): string => readFileSync(join(built, `${file}.html`), 'utf8')
const anchorsOf = (file: string): Set<string> => new Set([...html(file).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!))

describe('the pages', () => {
  test('are all in the contents, once and with a sentence; decisions are in their list', () => {
    const decisions = files.filter((file) => file.startsWith('decisions/'))
    expect([...listed, ...decisions, 'decisions', 'index'].toSorted()).toEqual(files.toSorted())
    for (const file of decisions) expect(html('decisions')).toContain(`href="/docs/${file}"`)
  })

  test('have no links that lead nowhere: to pages, to headings', () => {
    const anchors = new Map(files.map((file) => [file, anchorsOf(file)]))
    let links = 0
    const broken = files.flatMap((file) =>
      [...html(file).matchAll(/<a [^>]*?href="(?:\/docs(?:\/([^"#]*))?)?(?:#([^"]*))?"/g)].flatMap(([link, page, anchor]) => {
        links++
        // The reference is not a page of docs/.
        if (page === 'api') return []
        const there = anchors.get(page === undefined ? file : page === '' ? 'index' : page)
        return there && (anchor === undefined || there.has(decodeURIComponent(anchor))) ? [] : [`docs/${file}.md: ${link}`]
      }),
    )
    expect(broken).toEqual([])
    expect(links).toBeGreaterThan(200)
  })

  test('are linked from README.md by names that exist', () => {
    const links = [...readFileSync(join(PACKAGE_DIR, 'README.md'), 'utf8').matchAll(/\]\((?:\.\/)?docs\/([\w./-]+)\.md(?:#([\w-]+))?\)/g)]
    expect(links.length).toBeGreaterThan(20)
    expect(links.filter(([, file, anchor]) => !files.includes(file!) || (anchor !== undefined && !anchorsOf(file!).has(anchor))).map(([link]) => link)).toEqual(
      [],
    )
  })

  test('everything that they load and every page that they lead to is answered by the service', async () => {
    const paths = new Set(files.flatMap((file) => [...html(file).matchAll(/(?:src|href)="(\/[^"#]*)/g)].map(([, path]) => path!)))
    expect(paths.size).toBeGreaterThan(files.length)
    const failed: string[] = []
    for (const path of paths) {
      const response = await get(path)
      await response.arrayBuffer()
      if (response.status !== 200) failed.push(`${response.status} ${path}`)
    }
    expect(failed).toEqual([])
  })

  test('show HTML of their text as text, and name the files of programs', () => {
    expect(html('quickstarts/playwright')).toMatch(/<p class="file">playwright\.mts<\/p>/)
    const shown = files.flatMap((file) => [...html(file).matchAll(/<main[^]*<\/main>/g)].map(([main]) => main)).join('')
    expect(shown).not.toMatch(/<(script|iframe|img)\b|href="(javascript|data):|\son\w+=/)
  })
})

describe('GET /docs', () => {
  test('is answered without a key, under a policy that allows no script but its own', async () => {
    const response = await get('/docs')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'( 'sha256-[\w+/=]+')*; .*frame-ancestors 'none'; require-trusted-types-for 'script'/)
    expect(policy).not.toMatch(/script-src[^;]*unsafe/)
    expect(await response.text()).toContain('href="/docs/start"')
  })

  test('has a page for each file, by its old names, and the same as Markdown', async () => {
    for (const path of ['/docs/telemetry', '/docs/telemetry/', '/docs/telemetry.html'])
      expect(await (await get(path)).text()).toContain('<title>Telemetry · Cob</title>')
    const markdown = await get('/docs/telemetry.md')
    expect(markdown.headers.get('content-type')).toBe('text/markdown; charset=utf-8')
    expect(await markdown.text()).toBe(readFileSync(join(DOCS, 'telemetry.md'), 'utf8'))
    for (const path of ['/docs/', '/docs/decisions', '/docs/decisions/']) expect([path, (await get(path)).status]).toEqual([path, 200])
  })

  test('links the previous and the next page, in the order of the contents', () => {
    expect(html(listed[1]!)).toMatch(new RegExp(`pager-link prev" href="/docs/${listed[0]!}"[^]*pager-link next" href="/docs/${listed[2]!}"`))
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
    '/docs/hashmap.json',
    '/docs/../package.json',
    '/docs/%2e%2e/.tag',
    '/docs/..%2f.tag',
    '/docs/api/swagger-ui.css/x',
    '/docs/api/nothing',
    '/docs/%00',
  ])('does not serve other files: %s', async (path) => {
    expect([400, 404]).toContain((await get(path)).status)
  })

  test('says that there is no such page: to people as a page, to programs as an error', async () => {
    const page = await get('/docs/nothing', { accept: 'text/html' })
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(await (await get('/docs/nothing', { accept: '*/*' })).json()).toMatchObject({ code: 'not_found', message: 'there is no page "/docs/nothing"' })
  })

  test('answers HEAD without a body, and other methods with 405', async () => {
    const head = await fetch(`${cloud.url}/docs/start`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (const path of ['/docs', '/llms.txt', '/llms-full.txt']) expect([path, (await fetch(cloud.url + path, { method: 'POST' })).status]).toEqual([path, 405])
  })
})

test('/docs/api is a page that loads only files of this service', async () => {
  const response = await get('/docs/api')
  const page = await response.text()
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(response.headers.get('content-security-policy')).toMatch(/default-src 'none'/)
  const parts = [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path]) => path!)
  expect(parts.length).toBeGreaterThan(3)
  for (const path of parts) {
    expect(path).toMatch(/^\/docs/)
    const part = await get(path)
    expect([part.status, part.headers.get('x-content-type-options'), (await part.text()).length > 50]).toEqual([200, 'nosniff', true])
  }
})

describe('for agents', () => {
  test('/llms.txt has a title, a summary and lists of links that are answered', async () => {
    const response = await get('/llms.txt')
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    const text = await response.text()
    expect(text).toMatch(/^# Cob\n\n> .+\n\n## Start\n\n- \[/)
    const links = [...text.matchAll(/^- \[[^\]]+\]\(([^)]+)\)/gm)].map(([, url]) => url!)
    expect(links.length).toBeGreaterThan(listed.length)
    for (const url of links) {
      expect(url.startsWith(`${cloud.url}/`)).toBe(true)
      expect([url, (await fetch(url)).status]).toEqual([url, 200])
    }
  })

  test('/llms-full.txt has every page, and no decision', async () => {
    const text = await (await get('/llms-full.txt')).text()
    for (const file of listed) expect(text).toContain(`<!-- /docs/${file}.md -->`)
    expect(text).not.toContain('/docs/decisions/0001')
  })
})

describe('searching for agents', () => {
  test('leads to sections that the site has', async () => {
    const anchors = new Map(files.map((file) => [`/docs/${file}`, anchorsOf(file)]))
    const missing = (await sections()).filter(({ path }) => {
      const [page, anchor] = path.split('#')
      return !anchors.has(page!) || (anchor !== undefined && !anchors.get(page!)!.has(anchor))
    })
    expect(missing.map(({ path }) => path)).toEqual([])
    expect(existsSync(join(built, 'index.html'))).toBe(true)
  })

  test('finds sections by their words, titles first, decisions last', async () => {
    const [first] = await search('changing the key', 5)
    expect(first).toMatchObject({ title: 'Credentials', path: '/docs/credentials#changing-the-key', heading: 'Changing the key' })
    for (const setting of ['COB_PUBLIC_URL', 'COB_REGION', 'public url'])
      expect([setting, (await search(setting, 4)).map(({ path }) => path.split('#')[0])]).toEqual([setting, expect.arrayContaining(['/docs/settings'])])
    expect((await search('COB_PUBLIC_URL', 20)).map(({ excerpt }) => excerpt).join()).toContain('COB_PUBLIC_URL')
    expect((await search('profiles', 50))[0]!.path).toBe('/docs/profiles')
  })

  test('knows beginnings of words, and is bounded', async () => {
    expect((await search('telem', 3)).length).toBe(3)
    expect(await search('the', 2)).toHaveLength(2)
    expect(await search('', 5)).toEqual([])
    expect(await search('xyzzyplugh', 5)).toEqual([])
    for (const { excerpt } of await search('session', 50)) expect(excerpt.length).toBeLessThan(200)
    const before = performance.now()
    await search('session '.repeat(100_000), 5)
    await search('a '.repeat(100_000), 5)
    expect(performance.now() - before).toBeLessThan(2000)
  })
})
