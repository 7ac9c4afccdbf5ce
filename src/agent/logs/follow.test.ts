// Reads and follows files through rotation, truncation and deletion.
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sleep, until, within } from '../../base/wait.ts'
import { openLines } from './follow.ts'

const never = new AbortController().signal
let dir: string
let file: string
beforeAll(() => void (dir = mkdtempSync(join(tmpdir(), 'cob-follow-'))))
afterAll(() => rmSync(dir, { recursive: true, force: true }))
let count = 0
beforeEach(() => void (file = join(dir, `log-${count++}`)))

async function whole(path: string): Promise<string[]> {
  const lines: string[] = []
  for await (const line of await openLines(path, false, never)) lines.push(line)
  return lines
}

/** Follows the file; `next` gives its next line. */
async function follow(path: string) {
  const leaving = new AbortController()
  const lines = await openLines(path, true, leaving.signal)
  let waiting = lines.next()
  waiting.catch(() => {})
  return {
    async next(): Promise<string | undefined> {
      const { value, done } = await within('a line', 3_000, waiting)
      if (done) return undefined
      waiting = lines.next()
      waiting.catch(() => {})
      return value
    },
    async [Symbol.asyncDispose]() {
      leaving.abort(new Error('left'))
      await lines.return(undefined).catch(() => {})
    },
  }
}

describe('reading a log file', () => {
  test('ends, although a program writes faster than it reads', async () => {
    writeFileSync(file, 'x\n'.repeat(100_000))
    let lines = 0
    for await (const _ of await openLines(file, false, never)) if (++lines % 1_000 === 0) appendFileSync(file, 'y\n'.repeat(2_000))
    expect(lines).toBe(100_000)
  })

  test('reads files without a size, such as those of /proc', async () => {
    expect(await whole('/proc/self/status')).toContain(`Pid:\t${process.pid}`)
  })

  test('refuses a file that cannot be read, and says why', async () => {
    writeFileSync(file, '')
    execFileSync('mkfifo', [join(dir, 'fifo')])
    mkdirSync(join(dir, 'folder'))
    symlinkSync('circle', join(dir, 'circle'))
    symlinkSync('fifo', join(dir, 'to-fifo'))
    for (const [name, status, words] of [
      ['folder/nothing', 404, 'there is no file'],
      ['to-fifo', 400, 'path: is not a regular file'],
      ['circle', 400, 'path: leads through too many symbolic links'],
      ['x'.repeat(300), 400, 'path: is too long'],
      [`log-${count - 1}/x`, 400, 'path: is not a directory'],
    ] as const)
      for (const follows of [true, false])
        await expect(openLines(join(dir, name), follows, never)).rejects.toMatchObject({ status, message: expect.stringContaining(words) })
    for (const device of ['/dev/zero', '/dev/tty', '/dev/ptmx', '/dev/stdin'])
      await expect(openLines(device, false, never)).rejects.toMatchObject({ status: 400, message: 'path: is not a regular file' })
    // This file can be opened but not read.
    expect(await within('a line', 10_000, whole('/proc/self/mem'))).toEqual([expect.stringMatching(/^cannot read /)])
  })

  test('of a huge file without line ends stops as soon as its reader leaves', async () => {
    writeFileSync(file, '')
    truncateSync(file, 2 ** 40)
    const leaving = new AbortController()
    const reading = (await openLines(file, false, leaving.signal)).next()
    setTimeout(() => leaving.abort(new Error('left')), 50)
    await expect(within('the reader', 10_000, reading)).rejects.toThrow('left')
  })
})

describe('following a log file', () => {
  test('starts when it is open: no later line is missing, although nobody asks for it at once', async () => {
    writeFileSync(file, 'old\n')
    const lines = await openLines(file, true, never)
    appendFileSync(file, 'new\n')
    expect((await lines.next()).value).toBe('new')
    await lines.return(undefined)
  })

  test('closes the file when its reader leaves, also one that has asked for no line', async () => {
    writeFileSync(file, '')
    const leaving = new AbortController()
    await openLines(file, true, leaving.signal)
    expect(openFiles()).toContain(file)
    leaving.abort(new Error('left'))
    await until('the file to be closed', 10_000, () => !openFiles().includes(file))
  })

  test('continues with the new file after a rotation, after the last line of the old one', async () => {
    writeFileSync(file, '')
    await using log = await follow(file)
    appendFileSync(file, 'a\n')
    renameSync(file, `${file}.1`)
    appendFileSync(`${file}.1`, 'late\nunfinished')
    writeFileSync(file, 'b\n')
    expect([await log.next(), await log.next(), await log.next(), await log.next()]).toEqual(['a', 'late', 'unfinished', 'b'])
    renameSync(file, `${file}.2`)
    await sleep(600)
    writeFileSync(file, 'c\n')
    expect(await log.next()).toBe('c')
  })

  test('still reads a rotated file if its writer learns of the rotation later', async () => {
    writeFileSync(file, '')
    await using log = await follow(file)
    renameSync(file, `${file}.1`)
    writeFileSync(file, 'new\n')
    await sleep(200)
    appendFileSync(`${file}.1`, 'late\n')
    expect([await log.next(), await log.next()]).toEqual(['late', 'new'])
  })

  test('continues if a deleted file is created again', async () => {
    writeFileSync(file, '')
    await using log = await follow(file)
    unlinkSync(file)
    await sleep(500)
    writeFileSync(file, 'back\n')
    expect(await log.next()).toBe('back')
  })

  test('ends with a line that says why, if the file is replaced by something else', async () => {
    writeFileSync(file, '')
    await using log = await follow(file)
    unlinkSync(file)
    execFileSync('mkfifo', [file])
    expect(await log.next()).toMatch(/not a regular file/)
    expect(await log.next()).toBeUndefined()
  })
})

const openFiles = (): string[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)]
    } catch {
      return [] // the one that lists them
    }
  })
