// Building the documentation once for all who ask, also when it fails or takes too long.
import { readdirSync, readFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../../../base/wait.ts'
import { makeSite } from './site.ts'

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-docs-'))
})
afterAll(() => rmSync(dir, { recursive: true }))

const LIMIT_MS = 20_000
const GONE_MS = 10_000
const RETRY_MS = 1500

function program(name: string, text: string): URL {
  const file = join(dir, name)
  writeFileSync(file, text)
  return pathToFileURL(file)
}

const runs = (name: string): boolean =>
  readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(join(dir, name))
    } catch {
      return false
    }
  })

test('it is built once, and the program has ended then', async () => {
  const began = join(dir, 'began')
  const site = makeSite(
    program(
      'good.mjs',
      `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(began)}, 'x'); process.send([['/docs', { type: 'a', gzip: new Uint8Array([1]), tag: 't' }]]); setInterval(() => {}, 1000)`,
    ),
    { limitMs: LIMIT_MS, retryMs: RETRY_MS },
  )
  const [one, two] = await Promise.all([site(), site()])
  expect(one).toBe(two)
  expect(await site()).toBe(one)
  expect(one.get('/docs')).toEqual({ type: 'a', gzip: new Uint8Array([1]), tag: 't' })
  expect(readFileSync(began, 'utf8')).toBe('x')
  await until('the program to end', GONE_MS, () => !runs('good.mjs'))
})

test('a build that fails says why, and is tried again only some time later', async () => {
  const mark = join(dir, 'mark')
  const site = makeSite(
    program(
      'bad.mjs',
      `import { existsSync, writeFileSync } from 'node:fs'; if (!existsSync(${JSON.stringify(mark)})) { writeFileSync(${JSON.stringify(mark)}, ''); throw new Error('no such page') } process.send([]); process.disconnect()`,
    ),
    { limitMs: LIMIT_MS, retryMs: RETRY_MS },
  )
  await expect(site()).rejects.toThrow(/ended with 1: .*no such page/s)
  await expect(site()).rejects.toThrow('no such page')
  await setTimeout(RETRY_MS)
  expect(await site()).toEqual(new Map())
})

test('a build that takes too long is a 503, and ends', async () => {
  const site = makeSite(program('slow.mjs', 'setInterval(() => {}, 1000)'), { limitMs: 500, retryMs: RETRY_MS })
  await expect(site()).rejects.toMatchObject({ name: 'Unavailable', retryAfterSeconds: 5 })
  await until('the program to end', GONE_MS, () => !runs('slow.mjs'))
})
