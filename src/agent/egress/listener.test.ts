// The port of the proxy while there are no links.
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import { ProxyListener } from './listener.ts'

/** Longer than a test may take. */
const NEVER_MS = 600_000

test('a connection that waits for a link, and later ones, are told at once when there is no proxy any more; a page that looks for open ports gets no answer', async () => {
  const listener = new ProxyListener(NEVER_MS)
  await listener.open('a key of sixteen or more')
  const port = listener.port!
  const ask = (line: string) => {
    const client = connect(port, '127.0.0.1').on('error', () => {})
    client.write(`${line}\r\n\r\n`)
    return { client, answer: text(client).catch(() => '') }
  }
  const waiting = ask('GET http://site.test/ HTTP/1.1')
  await once(waiting.client, 'connect')
  listener.refuse()
  const later = ask('CONNECT site.test:443 HTTP/1.1')
  const page = ask('GET / HTTP/1.1')
  for (const { answer } of [waiting, later]) expect(await answer).toContain(`${PROXY_ERROR_HEADER}: unreachable`)
  expect(await page.answer).toBe('')
  listener.close()
})
