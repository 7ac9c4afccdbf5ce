// Reads regular files, and refuses at once anything that would block, never end, or is not a file.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { tempDir } from '../../../test/support/trees.ts'
import { within } from '../../base/wait.ts'
import { readFile } from './read.ts'

const bytesOf = async (path: string, range?: string): Promise<Buffer> => {
  const { body } = await readFile(path, range)
  return body instanceof Readable ? buffer(body) : Buffer.from(body)
}
const head = async (path: string, range?: string) => {
  const answer = await readFile(path, range)
  ;(answer.body as Readable).destroy()
  return answer
}
const status = async (path: string, range: string, since: string) => {
  const { body, status: code } = await readFile(path, range, since)
  ;(body as Readable).destroy()
  return code
}
const openFiles = (path: string): string[] =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path)
    } catch {
      return false
    }
  })

describe('reading a file', () => {
  test('returns the bytes or the requested range, and the total size', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    const content = Buffer.from(Array.from({ length: 600_000 }, (_, index) => (index * 7) % 251))
    writeFileSync(path, content)
    symlinkSync('f', `${dir.path}/link`)
    expect(await head(path)).toMatchObject({ headers: { 'content-length': '600000', 'accept-ranges': 'bytes' } })
    expect((await bytesOf(`${dir.path}/link`)).equals(content)).toBe(true)
    expect((await bytesOf(path, 'bytes=262143-262145')).equals(content.subarray(262_143, 262_146))).toBe(true)
    expect((await bytesOf(path, 'bytes=-5')).equals(content.subarray(-5))).toBe(true)
    expect(await head(path, 'bytes=10-19')).toMatchObject({ status: 206, headers: { 'content-range': 'bytes 10-19/600000', 'content-length': '10' } })
    await expect(readFile(path, 'bytes=600000-')).rejects.toMatchObject({ code: 'range_not_satisfiable' })
    writeFileSync(path, '')
    expect(await bytesOf(path)).toHaveLength(0)
    await expect.poll(() => openFiles(dir.path)).toEqual([])
  })

  test('returns the whole file if it was just written: its time may be that of another version', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    writeFileSync(path, 'text')
    const since = (await head(path)).headers['last-modified'] as string
    expect(await status(path, 'bytes=2-', since)).toBeUndefined()
  })

  test('returns the whole new file if the range was meant for an older version', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    writeFileSync(path, 'old text')
    utimesSync(path, 1_000, 1_000)
    const since = (await head(path)).headers['last-modified'] as string
    expect(await status(path, 'bytes=4-', since)).toBe(206)
    writeFileSync(path, 'new text')
    expect(await status(path, 'bytes=4-', since)).toBeUndefined()
    expect(await status(path, 'bytes=4-', '"a tag"')).toBeUndefined()
  })

  test('returns the size it had at the start if it grows, and breaks off if it shrinks', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    writeFileSync(path, Buffer.alloc(5_000_000))
    const grown = await readFile(path, undefined)
    appendFileSync(path, 'more')
    expect(await buffer(grown.body as Readable)).toHaveLength(5_000_000)
    const shrunk = await readFile(path, undefined)
    truncateSync(path, 1_000_000)
    await expect(buffer(shrunk.body as Readable)).rejects.toThrow('early')
  })

  test('leaves no file open if nobody reads the answer to its end', async () => {
    using dir = tempDir()
    writeFileSync(`${dir.path}/f`, Buffer.alloc(5_000_000))
    const unread = await readFile(`${dir.path}/f`, undefined)
    ;(unread.body as Readable).destroy()
    const begun = await readFile(`${dir.path}/f`, undefined)
    ;(begun.body as Readable).once('data', () => (begun.body as Readable).destroy())
    await once(begun.body as Readable, 'close')
    await expect.poll(() => openFiles(dir.path)).toEqual([])
  })

  test.each([
    ['a folder', (path: string) => mkdirSync(path)],
    ['a FIFO', (path: string) => void execFileSync('mkfifo', [path])],
    ['a socket', (path: string) => new Promise<void>((resolve) => void createServer().listen(path, resolve).unref())],
    ['an endless device', (path: string) => symlinkSync('/dev/zero', path)],
    ['a terminal', (path: string) => symlinkSync('/dev/tty', path)],
    ['the memory of a process', (path: string) => symlinkSync(`/proc/${process.pid}/mem`, path)],
    ['the page map of a process', (path: string) => symlinkSync(`/proc/${process.pid}/pagemap`, path)],
    ['a circle of links', (path: string) => symlinkSync('there', path)],
    ['a path through a file', (path: string) => symlinkSync('/etc/passwd/x', path)],
  ])('refuses %s immediately', async (_, make) => {
    using dir = tempDir()
    await Promise.resolve(make(`${dir.path}/there`))
    await expect(within('an answer', 5_000, readFile(`${dir.path}/there`, undefined))).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('returns the content of files in /proc, which have no size', async () => {
    expect((await bytesOf('/proc/self/status')).toString()).toContain('Threads:')
    expect((await bytesOf('/proc/version')).equals(readFileSync('/proc/version'))).toBe(true)
    await expect(readFile('/none', undefined)).rejects.toMatchObject({ code: 'not_found' })
  })
})
