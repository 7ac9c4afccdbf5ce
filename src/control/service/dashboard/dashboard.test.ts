// The dashboard's files: with and without a build, and a build that is replaced while it is read.
import fastify from 'fastify'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { MountContext } from '../../../http/mount.ts'
import { Fault } from '../../../http/fault.ts'
import { serveDashboard } from './dashboard.ts'
import { keepBuilt, readBuilt, type Built } from './files.ts'
import { pagesOf } from './pages.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cob-dashboard-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function build(tag: string): void {
  mkdirSync(join(folder, 'files/assets'), { recursive: true })
  writeFileSync(join(folder, 'files/index.html'), `<meta nonce="__COB_NONCE__"><p>${tag}</p>`)
  writeFileSync(join(folder, 'files/assets/a-1.js'), `'${tag}'`)
  writeFileSync(join(folder, 'files/assets/a-1.js.br'), 'br')
  writeFileSync(join(folder, 'files/manifest.json'), '{}')
  writeFileSync(join(folder, '.tag'), tag)
}

function serve(read: Built = () => readBuilt(folder)) {
  const app = fastify()
  app.setErrorHandler((error, _request, reply) => reply.code(error instanceof Fault ? error.status : 500).send({}))
  serveDashboard({ app, paths: new Map(), origin: () => 'http://cob.test' } as unknown as MountContext, keepBuilt(read))
  return {
    get: (url: string, headers: Record<string, string> = { accept: 'text/html' }) => app.inject({ url, headers }),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

test('without a build browsers read what to do, and a build that comes while the service runs is served', async () => {
  await using server = serve()
  const before = await server.get('/')
  expect([before.statusCode, before.body]).toEqual([200, expect.stringContaining('<code>script/setup</code> builds it')])
  expect(before.headers['content-security-policy']).toMatch(/^default-src 'none';/)
  build('first')
  expect((await server.get('/')).body).toContain('<p>first</p>')
})

test('programs read text at `/`, and get 404 below `/dashboard`', async () => {
  build('first')
  await using server = serve()
  for (const accept of ['*/*', 'application/json', '']) {
    const answer = await server.get('/', { accept })
    expect([answer.statusCode, answer.headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8'])
    expect(answer.body).toContain('curl -X POST -H "Authorization: Bearer <key>" http://cob.test/browsers')
    expect((await server.get('/dashboard/sessions', { accept })).statusCode).toBe(404)
  }
})

test('only files whose kind is known are served: in the encoding that is asked for, for ever when named by content', async () => {
  build('first')
  await using server = serve()
  const zipped = await server.get('/dashboard/assets/a-1.js', { 'accept-encoding': 'gzip, br' })
  expect([zipped.body, zipped.headers['content-encoding'], zipped.headers.vary]).toEqual(['br', 'br', 'accept-encoding'])
  expect(zipped.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  // There is no compressed form of this file.
  const plain = await server.get('/dashboard/assets/a-1.js', { 'accept-encoding': 'gzip' })
  expect([plain.body, plain.headers['content-encoding'], plain.headers['content-type']]).toEqual(["'first'", undefined, 'text/javascript; charset=utf-8'])
  for (const path of [
    'manifest.json',
    'index.html',
    'assets/a-1.js.br',
    'assets/none.js',
    'assets/',
    '../.tag',
    '..%2f.tag',
    '%2e%2e/.tag',
    'assets/..%2findex.html',
  ])
    expect((await server.get(`/dashboard/${path}`, { accept: '*/*' })).statusCode, path).toBe(404)
  expect((await server.get('/dashboard/assets/old.js')).statusCode).toBe(404)
})

test('each answer has a nonce of its own, in the page and in its policy, and nobody stores it', async () => {
  build('first')
  await using server = serve()
  const answers = await Promise.all(['/', '/dashboard', '/dashboard/sessions/x'].map((url) => server.get(url)))
  const nonces = answers.map(({ body }) => /nonce="([^"]{20,})"/.exec(body)![1]!)
  expect(new Set(nonces).size).toBe(3)
  for (const [at, { headers }] of answers.entries()) {
    expect(headers['content-security-policy']).toContain(`style-src 'self' 'nonce-${nonces[at]}'`)
    expect(headers['content-security-policy']).toContain("script-src 'self';")
    expect(headers['content-security-policy']).toMatch(/frame-ancestors 'none'; require-trusted-types-for 'script'/)
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['cache-control']).toBe('no-store')
  }
})

test('files of two builds are never mixed', async () => {
  build('first')
  const reading = readBuilt(folder)
  build('second')
  const { pages, files } = (await reading)!
  expect(files.get('assets/a-1.js')!.plain.toString()).toBe(pages.get('index')!.includes('first') ? "'first'" : "'second'")
})

test('a build that cannot be read is an error for this request, and is tried again for the next', async () => {
  let isBroken = true
  await using server = serve(async () => {
    if (isBroken) throw new Error('the disk has failed')
    return { pages: new Map([['index', '<p>__COB_NONCE__</p>']]), files: new Map() }
  })
  expect((await server.get('/')).statusCode).toBe(500)
  isBroken = false
  expect((await server.get('/')).statusCode).toBe(200)
})

test('pages that stand alone have what is filled in as text; without a build they are a clear error', async () => {
  const evil = `<b>"it's" & __DATA__</b>`
  const built: Built = async () => ({
    pages: new Map([
      ['one', '<title>__TITLE__</title><body data-page="__DATA__">'],
      ['message', '<h1>__TITLE__</h1><p>__TEXT__</p>__LINKS__'],
    ]),
    files: new Map(),
  })
  const safe = '&#60;b&#62;&#34;it&#39;s&#34; &#38; __DATA__&#60;/b&#62;'
  const pages = pagesOf(built)
  expect(await pages.render('one', { title: evil, data: [evil] })).toBe(
    `<title>${safe}</title><body data-page="[&#34;${safe.replaceAll('&#34;', '\\&#34;')}&#34;]">`,
  )
  expect(await pages.message({ title: evil, text: evil, links: [{ href: evil, text: evil }] })).toBe(
    `<h1>${safe}</h1><p>${safe}</p><a class="button" href="${safe}">${safe}</a>`,
  )
  await expect(pagesOf(async () => undefined).render('one')).rejects.toMatchObject({ status: 503 })
})
