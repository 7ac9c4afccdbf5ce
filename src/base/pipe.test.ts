// The data that waits between two streams is limited in pieces, not only in bytes.
import { PassThrough, Readable, Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { limitWaiting, pipe } from './pipe.ts'
import { sleep } from './wait.ts'

const bytes = (count: number) => Readable.from(Array.from({ length: count }, (_, at) => Buffer.from([at % 256])))

test('a receiver that takes nothing has few pieces of a sender of single bytes', async () => {
  let taken = 0
  const stuck = new Writable({ highWaterMark: 1024 * 1024, write: () => void taken++ })
  pipe(bytes(10_000), stuck)
  await sleep(100)
  expect(taken).toBe(1)
  expect(stuck.writableLength).toBeLessThan(300)
  stuck.destroy()
})

test('all of it comes, in its order, at a receiver that is slow, and then the end', async () => {
  const got: Buffer[] = []
  const slow = new Writable({ write: (chunk: Buffer, _, done) => void (got.push(chunk), got.length % 500 === 0 ? setImmediate(done) : done()) })
  pipe(bytes(5_000), slow)
  await new Promise((resolve) => slow.once('finish', resolve))
  expect(Buffer.concat(got)).toEqual(Buffer.from(Array.from({ length: 5_000 }, (_, at) => at % 256)))
})

test('a sender that was paused goes on', async () => {
  const to = new PassThrough()
  const from = bytes(3)
  from.pause()
  pipe(from, to)
  expect(Buffer.concat(await to.toArray())).toEqual(Buffer.from([0, 1, 2]))
})

test('after a receiver has gone, its sender is not read and keeps no listener', async () => {
  const from = new PassThrough()
  const to = new PassThrough()
  pipe(from, to)
  to.destroy()
  await sleep(10)
  from.write('more')
  await sleep(10)
  expect([from.readableFlowing, from.listenerCount('data'), from.readableLength]).toEqual([false, 0, 4])
})

test('what is piped to a limited receiver waits as well, and all of it comes', async () => {
  const got: Buffer[] = []
  let most = 0
  let go = () => {}
  const slow = new Writable({
    highWaterMark: 1024 * 1024,
    write(chunk: Buffer, _, done) {
      got.push(chunk)
      most = Math.max(most, this.writableLength)
      if (got.length === 1) go = done
      else done()
    },
  })
  limitWaiting(slow)
  bytes(5_000).pipe(slow)
  await sleep(100)
  expect(slow.writableLength).toBeLessThan(300)
  go()
  await new Promise((resolve) => slow.once('finish', resolve))
  expect([Buffer.concat(got).length, most < 300]).toEqual([5_000, true])
})
