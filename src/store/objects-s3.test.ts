// The S3 store's own behaviour, against an HTTP server that answers like S3. test/s3 tests its promises over a real server.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KEYS, s3Server, type S3Server } from '../../test/support/s3.ts'
import { until } from '../base/wait.ts'
import { s3Objects } from './objects-s3.ts'
import { objectsSuite } from './objects.suite.ts'

const SOON_MS = 20_000
const PARTS_IN_ALL = 16

// The server of fast tests keeps the promises of a real one (test/s3).
let s3: S3Server
beforeAll(async () => void (s3 = await s3Server()))
afterAll(() => s3[Symbol.asyncDispose]())
objectsSuite('the S3 of tests', 7, async () => s3Objects({ bucket: 'logs', endpoint: s3.url, region: 'us-east-1', prefix: 'a/b', ...KEYS }))

/** Holds requests with content until they are answered. */
async function holdingServer() {
  const held: ServerResponse[] = []
  let all = 0
  const server = createServer((request, response) => {
    const path = request.url!
    request.resume().on('end', () => {
      if (request.method === 'PUT') {
        all++
        held.push(response)
      } else if (path.endsWith('?uploads=') || path.endsWith('?uploads') || path.includes('?uploads&'))
        response.end('<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>')
      else response.end('<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    held: () => held.length,
    all: () => all,
    answer: () => held.splice(0).forEach((response) => response.setHeader('etag', '"x"').end()),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('of all uploads together, no more parts are under way than the limit says; an upload that is given up while it waits never begins', async () => {
  await using server = await holdingServer()
  using objects = s3Objects({ bucket: 'b', endpoint: `http://127.0.0.1:${server.port}`, region: 'r', accessKeyId: 'a', secretAccessKey: 's', prefix: 'p' })
  const { signal } = new AbortController()
  const limits = { maxBytes: 100 * 1024 * 1024 }
  // One file of several parts, of which two are sent at once.
  const large = objects.put('large', Readable.from([Buffer.alloc(17 * 1024 * 1024)]), limits, signal)
  await until('its first parts', SOON_MS, () => server.held() === 2)
  const leaver = new AbortController()
  const small = Array.from({ length: PARTS_IN_ALL }, (_, index) => objects.put(`small-${index}`, Readable.from([Buffer.from('x')]), limits, signal))
  await until('as many as may be', SOON_MS, () => server.held() === PARTS_IN_ALL)
  const left = objects.put('left', Readable.from([Buffer.from('x')]), limits, leaver.signal)
  leaver.abort(new Error('its caller left'))
  await expect(left).rejects.toThrow('its caller left')
  // Two more, and the third part of the large one, follow when others are done.
  let most = server.held()
  await until('all of them', SOON_MS, () => {
    most = Math.max(most, server.held())
    if (server.all() === PARTS_IN_ALL || server.held() > 0) server.answer()
    return server.all() === PARTS_IN_ALL + 3
  })
  server.answer()
  expect((await large).bytes).toBe(17 * 1024 * 1024)
  expect((await Promise.all(small)).map(({ bytes }) => bytes)).toEqual(small.map(() => 1))
  expect([most, server.all()]).toEqual([PARTS_IN_ALL, PARTS_IN_ALL + 3])
})
