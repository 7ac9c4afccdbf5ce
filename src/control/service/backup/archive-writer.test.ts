// Failing outputs, and contents whose length has changed.
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { archiveWriter } from './archive-writer.ts'

const SIGNAL_MS = 10_000
const signal = () => AbortSignal.timeout(SIGNAL_MS)
const taking = () => new Writable({ write: (_chunk, _encoding, done) => done() })

test('an output that fails is named with its reason, at the entry after it at the latest', async () => {
  const output = new Writable({ write: (_chunk, _encoding, done) => done(new Error('ENOSPC: no space left on device')) })
  const writer = archiveWriter(output, signal())
  const work = async () => {
    for (let n = 0; n < 3; n++) await writer.add(`${n}`, 200_000, [Buffer.alloc(200_000)])
  }
  await expect(work()).rejects.toThrow('the backup could not be written: ENOSPC: no space left on device')
})

test.each([
  ['fewer', 5],
  ['more', 1],
])('a content with %s bytes than it had is an error that names it, and closes the output', async (_, bytes) => {
  const output = taking()
  const closed = once(output, 'close')
  await expect(archiveWriter(output, signal()).add('objects/x', bytes, [Buffer.from('abc')])).rejects.toThrow(`objects/x has not ${bytes} bytes any more`)
  await closed.catch(() => {})
  expect(output.destroyed).toBe(true)
})

test('an error of a content is passed on', async () => {
  async function* content(): AsyncGenerator<Buffer> {
    yield Buffer.from('a')
    throw new Error('the object store does not answer')
  }
  await expect(archiveWriter(taking(), signal()).add('objects/x', 2, content())).rejects.toThrow('the object store does not answer')
})

test('an abort ends it with its reason, also when the output takes nothing', async () => {
  const stop = new AbortController()
  const output = new Writable({ write() {}, highWaterMark: 1 })
  const adding = archiveWriter(output, stop.signal).add('objects/x', 4_000_000, [Buffer.alloc(2_000_000), Buffer.alloc(2_000_000)])
  setTimeout(() => stop.abort(new Error('ended by SIGINT')), 50)
  await expect(adding).rejects.toThrow('ended by SIGINT')
})
