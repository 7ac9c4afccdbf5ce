// Thumbnails of sessions whose agents are hostile, and how often an agent is asked.
import { expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { hostileDriver } from '../../../../test/support/hostile-driver.ts'
import { sleep } from '../../../base/wait.ts'

const agents = hostileDriver()
const cloud = fastCloud({}, agents.drive)

const get = (id: string) => cloud.fetch(`/browsers/${id}/thumbnail`)
/** The beginning of a PNG of this size. */
const png = (width: number, height: number): string => {
  const head = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\0\x08\x02\0\0\0\0\0\0\0', 'latin1')
  head.writeUInt32BE(width, 16)
  head.writeUInt32BE(height, 20)
  return head.toString('base64')
}
const json = (value: unknown) => {
  const text = JSON.stringify(value)
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${text.length}\r\n\r\n${text}`
}

test.each([
  ['HTML in place of a picture', json({ tag: 'a', png: Buffer.from('<script>alert(1)</script>'.repeat(9)).toString('base64') })],
  ['a picture that fills the memory of whoever shows it', json({ tag: 'a', png: png(60_000, 60_000) })],
  ['a known picture that it has never given', json({ tag: 'a', png: null })],
  ['a megabyte', json({ tag: 'a', png: 'A'.repeat(1024 * 1024) })],
  ['another shape', json({ png: 7 })],
  ['a redirect', 'HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n'],
])('%s of an agent is no picture', async (_what, answer) => {
  const { session_id: id } = await cloud.create()
  agents.takeOver(id, (socket) => socket.end(answer))
  const response = await get(id)
  expect([response.status, await response.text()]).toEqual([204, ''])
})

test('an agent is asked once for a hundred callers, once a second, and not soon again when it does not answer; its tag cannot become a header', async () => {
  const { session_id: id } = await cloud.create()
  let asked = 0
  let answer = json({ tag: 'a\r\nset-cookie: x=1', png: png(320, 200) })
  agents.takeOver(id, (socket, head) => {
    if (!head.startsWith('GET /thumbnail')) return void socket.destroy()
    asked++
    if (answer !== '') socket.end(answer)
  })
  const began = performance.now()
  const answers = await Promise.all(Array.from({ length: 100 }, () => get(id)))
  // A hundred calls may take longer than a second.
  expect(asked).toBeLessThanOrEqual(1 + (performance.now() - began) / 1_000)
  expect([new Set(answers.map(({ status }) => status)), answers[0]!.headers.get('set-cookie')]).toEqual([new Set([200]), null])
  const before = asked
  await sleep(1_000)
  answer = ''
  // The agent does not answer: the kept picture is shown, the first time after the limit, then at once.
  expect([(await get(id)).status, asked]).toEqual([200, before + 1])
  const now = performance.now()
  expect([(await get(id)).status, asked, performance.now() - now < 1_000]).toEqual([200, before + 1, true])
})
