// One viewer's connection: its data waits outside of the agent while the picture server does not read.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { silentLog } from '../../base/log.ts'
import { sleep, until } from '../../base/wait.ts'
import { joinViewer, PICTURE_ENDED } from './viewer.ts'

const REQUEST = Buffer.from([3, 0, 0, 0, 0, 0, 0, 1, 0, 1])
const MESSAGE = Buffer.concat(Array.from({ length: 6_000 }, () => REQUEST))
/** Far more than sockets buffer. */
const MESSAGES = 500
/** Buffers of the sockets and of Node between a viewer and the picture server. */
const MAX_HELD = 1024 * 1024
/** Long enough for everything to arrive here if nothing held it back. */
const QUIET_MS = 1_000
const ARRIVED_MS = 20_000

const server = createServer().listen(0, '127.0.0.1')
const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1' })
afterAll(() => {
  server.close()
  sockets.close()
})

/** A viewer of a picture: the far ends of both connections, and the agent's object. */
async function join() {
  const accepted = once(server, 'connection')
  const picture = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [reader] = (await accepted) as [Socket]
  reader.pause()
  const joined = once(sockets, 'connection')
  const viewer = new WebSocket(`ws://127.0.0.1:${(sockets.address() as AddressInfo).port}`)
  const [client] = (await joined) as [WebSocket]
  const known = joinViewer(client, picture, undefined, silentLog)
  if (viewer.readyState !== viewer.OPEN) await once(viewer, 'open')
  return { picture, reader, viewer, client, known }
}

test('what it sends waits with it while the picture server does not read, and arrives when that reads again', async () => {
  const { picture, reader, viewer } = await join()
  viewer.send('RFB 003.008\n', { binary: true })
  viewer.send(Buffer.from([1, 1]))
  for (let sent = 0; sent < MESSAGES; sent++) viewer.send(MESSAGE)
  await sleep(QUIET_MS)
  expect(picture.writableLength).toBeLessThan(MAX_HELD)
  let read = 0
  reader.on('data', (chunk: Buffer) => (read += chunk.length)).resume()
  await until('everything to arrive', ARRIVED_MS, () => read === 14 + MESSAGES * MESSAGE.length)
  const closed = once(viewer, 'close')
  reader.destroy()
  expect(await closed).toEqual([PICTURE_ENDED, expect.anything()])
})

test('a viewer that reads slowly gets few of the copied texts, and the last one', async () => {
  const { viewer, client, known, reader } = await join()
  const got: string[] = []
  viewer.on('message', (data) => got.push((JSON.parse((data as Buffer).toString()) as { text: string }).text.slice(0, 3)))
  viewer.pause()
  for (let copy = 100; copy < 150; copy++) known.tell({ type: 'clipboard', text: `${copy}${'x'.repeat(4_000_000)}`, initial: false })
  expect(client.bufferedAmount).toBeLessThan(5_000_000)
  viewer.resume()
  await until('the last text', ARRIVED_MS, () => got.includes('149'))
  expect(got).toEqual(['100', '149'])
  const closed = once(viewer, 'close')
  reader.destroy()
  await closed
})
