// Raw HTTP: sends bytes on a socket, and parses the answers.
import { once } from 'node:events'
import { connect } from 'node:net'
import { within } from '../../src/base/wait.ts'

/** Within this time a request is answered or its connection ends; no request may hang. */
export const ANSWER_MS = 10_000

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

/** Sends these bytes to the service at `url` on a new connection, and returns its whole answer. Closes this side after `patienceMs` of silence. */
export async function say(url: string, raw: Buffer, patienceMs: number): Promise<Buffer> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const chunks: Buffer[] = []
  const quiet = setTimeout(() => socket.end(), patienceMs)
  socket.on('data', (chunk) => {
    chunks.push(chunk)
    quiet.refresh()
  })
  socket.on('error', () => {})
  const closed = once(socket, 'close')
  socket.write(raw)
  try {
    await within('an answer or the end of the connection', ANSWER_MS, closed)
  } finally {
    clearTimeout(quiet)
    socket.destroy()
  }
  return Buffer.concat(chunks)
}

export function answersIn(said: Buffer): Answer[] {
  const answers: Answer[] = []
  for (let rest = said; rest.length > 0;) {
    const end = rest.indexOf('\r\n\r\n')
    const [first = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    if (end < 0 || !status) throw new Error(`not an answer: ${rest.toString('latin1').slice(0, 200)}`)
    const headers = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]))
    const length = headers['content-length'] === undefined ? (status === 204 || status < 200 ? 0 : rest.length - end - 4) : Number(headers['content-length'])
    if (status >= 200) answers.push({ status, headers, body: rest.subarray(end + 4, end + 4 + length) })
    rest = rest.subarray(end + 4 + length)
  }
  return answers
}
