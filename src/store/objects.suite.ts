// The promises of every object store, as one suite that runs over each of them. Not a test file itself.
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../base/ids.ts'
import { within } from '../base/wait.ts'
import { TooLarge, type Objects } from './objects.ts'

/** Limit on an aborted call on a busy machine. */
const ABORT_MS = 20_000
const MANY = { maxBytes: 1024 ** 3 }

/** Runs the suite over an empty store that is made for it. `page` is the number of objects that the store lists at once. */
export function objectsSuite(name: string, page: number, make: () => Promise<Objects>): void {
  describe(`objects in ${name}`, () => {
    const { signal } = new AbortController()
    let objects: Objects
    let dir: string
    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), 'cob-objects-'))
      objects = await make()
    })
    afterAll(() => {
      objects[Symbol.dispose]()
      rmSync(dir, { recursive: true, force: true })
    })

    const put = (key: string, ...chunks: Uint8Array[]) => objects.put(key, of(...chunks), MANY, signal)
    const read = async (key: string, range?: { start: number; end: number }) => {
      const found = await objects.get(key, range)
      return found && { bytes: found.bytes, content: await buffer(found.content) }
    }
    const list = async (prefix: string) => {
      const keys: string[] = []
      for await (const { key } of objects.list(prefix, signal)) keys.push(key)
      return keys.toSorted()
    }

    test('what was put is read back whole, with its length and its hash', async () => {
      const [one, two] = [Buffer.from('hello '), Buffer.from('there')]
      const sha256 = createHash('sha256').update('hello there').digest('hex')
      expect(await put('whole/a', one, two)).toEqual({ bytes: 11, sha256 })
      expect(await read('whole/a')).toEqual({ bytes: 11, content: Buffer.from('hello there') })
    })

    test('an empty object is an object', async () => {
      expect(await put('whole/empty')).toMatchObject({ bytes: 0 })
      expect(await read('whole/empty')).toEqual({ bytes: 0, content: Buffer.alloc(0) })
    })

    test('an object of several parts arrives in order, and every range of it is right', async () => {
      const content = numbered(20 * 1024 * 1024 + 12_345)
      const chunks = Array.from({ length: Math.ceil(content.length / 700_001) }, (_, index) => content.subarray(index * 700_001, (index + 1) * 700_001))
      expect(await put('whole/large', ...chunks)).toEqual({ bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') })
      expect((await read('whole/large'))!.content.equals(content)).toBe(true)
      const last = content.length - 1
      for (const [start, end] of [
        [0, 0],
        [4 * 1024 * 1024 - 1, 4 * 1024 * 1024],
        [8 * 1024 * 1024 - 3, 17 * 1024 * 1024 + 3],
        [last, last],
        [last - 10, last + 1_000_000],
      ] as const) {
        const found = await read('whole/large', { start, end })
        expect([start, end, found!.bytes, found!.content.equals(content.subarray(start, end + 1))]).toEqual([start, end, content.length, true])
      }
    })

    test('a missing key is undefined, and can be deleted', async () => {
      expect(await objects.get('nothing/here')).toBe(undefined)
      expect(await objects.get('nothing/here', { start: 0, end: 0 })).toBe(undefined)
      await objects.delete('nothing/here')
    })

    test('a deleted object is gone', async () => {
      await put('gone/a', Buffer.from('x'))
      await objects.delete('gone/a')
      expect([await objects.get('gone/a'), await list('gone')]).toEqual([undefined, []])
    })

    test('an object that is too large is refused, and none of it appears', async () => {
      const chunks = of(Buffer.alloc(600), Buffer.alloc(600))
      await expect(objects.put('refused/large', chunks, { maxBytes: 1000 }, signal)).rejects.toBeInstanceOf(TooLarge)
      const parts = of(...Array.from({ length: 30 }, () => Buffer.alloc(1024 * 1024)))
      await expect(objects.put('refused/parts', parts, { maxBytes: 25 * 1024 * 1024 }, signal)).rejects.toBeInstanceOf(TooLarge)
      expect(await list('refused')).toEqual([])
    })

    test('content that breaks is reported with its own error, and none of it appears', async () => {
      const problem = new Error('the sender has left')
      async function* broken() {
        yield Buffer.alloc(1000)
        throw problem
      }
      await expect(objects.put('refused/broken', broken(), MANY, signal)).rejects.toBe(problem)
      expect(await list('refused')).toEqual([])
    })

    test('a put that is aborted ends at once with the reason, and nothing appears', async () => {
      const stop = new AbortController()
      const reason = new Error('enough')
      async function* endless() {
        for (let count = 0; ; count++) {
          if (count === 12) stop.abort(reason)
          yield Buffer.alloc(1024 * 1024)
        }
      }
      await expect(within('the end of a put', ABORT_MS, objects.put('refused/aborted', endless(), MANY, stop.signal))).rejects.toBe(reason)
      expect(await list('refused')).toEqual([])
    })

    test('a file becomes an object, stays where it is, and can be removed', async () => {
      const path = join(dir, 'film')
      const content = numbered(9 * 1024 * 1024 + 1)
      writeFileSync(path, content)
      await objects.putFile('files/film', path, signal)
      expect(readFileSync(path).equals(content)).toBe(true)
      rmSync(path)
      expect((await read('files/film'))!.content.equals(content)).toBe(true)
    })

    test('a file that is not there is reported, and nothing appears', async () => {
      await expect(objects.putFile('files/none', join(dir, 'none'), signal)).rejects.toMatchObject({ code: 'ENOENT' })
      expect(await list('files')).not.toContain('files/none')
    })

    test('a list has every object below its prefix, with length and time, over any number of pages', async () => {
      const before = Date.now()
      const keys = Array.from({ length: page + 20 }, (_, index) => `many/${newId()}.${index}`)
      for (let at = 0; at < keys.length; at += 20) await Promise.all(keys.slice(at, at + 20).map((key) => put(key, Buffer.from(key))))
      await put('many-others/x', Buffer.from('x'))
      expect(await list('many')).toEqual(keys.toSorted())
      for await (const { key, bytes, modified } of objects.list('many', signal)) {
        expect(bytes).toBe(key.length)
        // Times of S3 are whole seconds.
        expect(modified.getTime()).toBeGreaterThan(before - 2_000)
        expect(modified.getTime()).toBeLessThan(Date.now() + 2_000)
      }
      expect(await list('no-such')).toEqual([])
    }, 120_000)

    test('a list obeys its signal', async () => {
      await put('listed/a', Buffer.from('x'))
      const reason = new Error('enough')
      await expect(objects.list('listed', AbortSignal.abort(reason))[Symbol.asyncIterator]().next()).rejects.toBe(reason)
    })

    test('a reader that leaves early leaves nothing open', async () => {
      await put('left/large', Buffer.alloc(12 * 1024 * 1024, 7))
      const { content } = (await objects.get('left/large'))!
      for await (const chunk of content as AsyncIterable<Buffer>) {
        expect(chunk[0]).toBe(7)
        break
      }
      expect(content.destroyed).toBe(true)
    })

    test('keys that are paths to somewhere else are refused', async () => {
      for (const key of ['../a', 'a/../b', '/a', 'a//b', '.hidden', 'a/.b', '']) {
        await expect(async () => objects.get(key)).rejects.toThrow('not an object')
        await expect(async () => put(key, Buffer.from('x'))).rejects.toThrow('not an object')
        await expect(async () => objects.delete(key)).rejects.toThrow('not an object')
      }
    })
  })
}

async function* of(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks
}

/** Bytes that show their position. */
function numbered(length: number): Buffer {
  const words = Buffer.alloc(Math.ceil(length / 4) * 4)
  for (let at = 0; at < words.length; at += 4) words.writeUInt32LE(at, at)
  return words.subarray(0, length)
}
