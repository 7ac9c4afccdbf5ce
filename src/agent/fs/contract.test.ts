// Valid paths, permissions and ranges, checked with inputs of all kinds.
import fc from 'fast-check'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { describe, expect, test } from 'vitest'
import { tempDir } from '../../../test/support/trees.ts'
import { Fault } from '../../http/fault.ts'
import { rangeOf } from '../../http/range.ts'
import { filesystem, Path } from './contract.ts'
import { fileInfo, listFiles, lsMode } from './info.ts'

const path = (text: string): string | undefined => Path.safeParse(text).data

describe('a path', () => {
  test.each([
    ['/', '/'],
    ['/J!', '/J!'],
    ['//a///b/', '/a/b'],
    ['/a/./b/.', '/a/b'],
    ['/a/..b/...', '/a/..b/...'],
    ['/ü 🌽/\n', '/ü 🌽/\n'],
  ])('%j is normalized to %j', (text, expected) => expect(path(text)).toBe(expected))

  test.each([
    '',
    'a',
    './a',
    '~/a',
    '../a',
    '/..',
    '/a/../b',
    '/a/..',
    '/home/kernel/../x',
    '/a\0b',
    '/\ud800',
    `/${'x/'.repeat(2_048)}`,
    `/${'ü'.repeat(2_048)}`,
  ])('%j is refused', (text) => expect(path(text)).toBeUndefined())

  test('that is accepted is absolute and normalized, and stays the same if it is normalized again', () => {
    const piece = fc.oneof(fc.constantFrom('..', '.', '', '/', 'a', '\\', '\0', '%2e%2e'), fc.string({ unit: 'binary', maxLength: 8 }))
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const taken = path(`/${pieces.join('/')}`)
        if (taken === undefined) return
        expect(taken.split('/')).not.toContain('..')
        expect(taken).not.toContain('\0')
        expect(path(taken)).toBe(taken)
        expect(normalize(taken)).toBe(taken)
      }),
    )
  })
})

test.each([
  ['644', 0o644],
  ['0755', 0o755],
  ['4755', 0o4755],
  ['000', 0],
  ['99', undefined],
  ['8888', undefined],
  ['0o644', undefined],
  ['rwx', undefined],
  ['', undefined],
  ['07777 ', undefined],
  ['00644', undefined],
])('mode %j is %j', (mode, expected) => expect(filesystem.setFilePermissions.body.safeParse({ path: '/a', mode }).data?.mode).toBe(expected))

test('calls that send a file may take an hour: their time runs until the answer is sent', () => {
  const sending = Object.values(filesystem).filter(({ reply }) => reply.kind === 'bytes')
  expect(sending.map(({ id, deadlineMs }) => [id, deadlineMs])).toEqual([
    ['downloadDirZip', 3_600_000],
    ['readFile', 3_600_000],
  ])
})

test('permissions are written in the format of ls', async () => {
  using dir = tempDir()
  const at = (name: string) => join(dir.path, name)
  mkdirSync(at('folder'))
  symlinkSync('nowhere', at('link'))
  execFileSync('mkfifo', [at('pipe')])
  const modes = [0o644, 0o600, 0o777, 0o000, 0o4755, 0o2755, 0o1777, 0o4644, 0o2644, 0o1644, 0o7000, 0o421]
  for (const mode of modes) {
    writeFileSync(at(`f${mode}`), '')
    chmodSync(at(`f${mode}`), mode)
  }
  chmodSync(at('folder'), 0o1775)
  const ls = execFileSync('ls', ['-l', '--time-style=full-iso', dir.path], { env: { LC_ALL: 'C' } })
    .toString()
    .split('\n')
    .slice(1)
  for (const { name, mode } of await listFiles(dir.path, AbortSignal.timeout(5_000)))
    expect(ls.find((line) => line.split(' ').includes(name))?.slice(0, 10), name).toBe(mode)
  expect(lsMode(0o020666)).toBe('crw-rw-rw-')
})

test('a file with any timestamp can be described, with a valid time', async () => {
  const path = `/dev/shm/cob-${process.pid}`
  writeFileSync(path, '')
  try {
    for (const [seconds, year] of [
      ['99999999999999999', '9999'],
      ['-99999999999999999', '0001'],
      ['-5', '1969'],
    ] as const) {
      execFileSync('touch', ['-d', `@${seconds}`, path])
      expect((await fileInfo(path)).mod_time.slice(0, 4)).toBe(year)
    }
  } finally {
    rmSync(path)
  }
})

test('concurrent lists run one after the other, and callers that leave do not block others', async () => {
  using dir = tempDir()
  for (let i = 0; i < 500; i++) writeFileSync(join(dir.path, String(i)), '')
  const left = new AbortController()
  const asked = Array.from({ length: 20 }, (_, index) => listFiles(dir.path, index % 2 ? left.signal : new AbortController().signal))
  left.abort(new Error('gone'))
  const results = await Promise.allSettled(asked)
  expect(results.map((result) => (result.status === 'fulfilled' ? result.value.length : 'gone'))).toEqual(results.map((_, index) => (index % 2 ? 'gone' : 500)))
})

test('a list is sorted by the bytes of names, describes links themselves, and includes names that are not UTF-8', async () => {
  using dir = tempDir()
  for (const name of ['b', 'a', 'B', 'ü', '.x', '10', '9']) writeFileSync(join(dir.path, name), name)
  symlinkSync('a', join(dir.path, 'to-a'))
  writeFileSync(Buffer.concat([Buffer.from(`${dir.path}/z`), Buffer.from([0xff])]), 'odd')
  const list = await listFiles(dir.path, AbortSignal.timeout(5_000))
  expect(list.map(({ name }) => name)).toEqual(['.x', '10', '9', 'B', 'a', 'b', 'to-a', 'z\ufffd', 'ü'])
  expect(list.find(({ name }) => name === 'to-a')).toMatchObject({ mode: 'lrwxrwxrwx', is_dir: false })
  expect(list.at(-2)).toMatchObject({ size_bytes: 3 })
  expect(await fileInfo(join(dir.path, 'to-a'))).toMatchObject({ name: 'to-a', mode: '-rw-r--r--', size_bytes: 1 })
  await expect(fileInfo(join(dir.path, 'none'))).rejects.toMatchObject({ code: 'not_found' })
  await expect(listFiles(join(dir.path, 'a'), AbortSignal.timeout(5_000))).rejects.toMatchObject({ code: 'bad_request' })
})

describe('a Range header', () => {
  test.each([
    [undefined, 10, undefined],
    ['bytes=0-3', 10, [0, 4]],
    ['bytes=3-', 10, [3, 10]],
    ['bytes=-3', 10, [7, 10]],
    ['bytes=-30', 10, [0, 10]],
    ['bytes=9-99', 10, [9, 10]],
    ['BYTES = 1 - 1', 10, [1, 2]],
    ['bytes=0-1,3-4', 10, undefined],
    ['bytes=5-1', 10, undefined],
    ['bytes=-', 10, undefined],
    ['lines=1-2', 10, undefined],
    ['bytes=a-b', 10, undefined],
    ['bytes=10-', 10, 416],
    ['bytes=-0', 10, 416],
    ['bytes=0-', 0, 416],
    ['bytes=99999999999999999999-', 10, 416],
    ['bytes=0-99999999999999999999999', 10, [0, 10]],
  ])('%s of a file of %i bytes', (header, size, expected) => {
    if (expected === 416) expect(() => rangeOf(header, size)).toThrow(Fault)
    else expect(rangeOf(header, size)).toEqual(Array.isArray(expected) ? { start: expected[0], end: expected[1] } : undefined)
  })

  test('always gives a range within the file, whatever it contains', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.nat({ max: 1_000 }), fc.constantFrom('a-b', 'a-', '-b'), (a, b, size, form) => {
        try {
          const part = rangeOf(`bytes=${form.replace('a', String(a)).replace('b', String(b))}`, size)
          if (part) expect(0 <= part.start && part.start < part.end && part.end <= size).toBe(true)
        } catch (error) {
          expect(error).toMatchObject({ code: 'range_not_satisfiable', headers: { 'content-range': `bytes */${size}` } })
        }
      }),
    )
  })
})
