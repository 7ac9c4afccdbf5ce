// Opens more connections than the service has file descriptors.
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { openSession } from '../support/session.ts'

const FILES = 200
const CONNECTIONS = 600
/** Hold the connections longer than the service's check of the database, which it makes every second. */
const HELD_MS = 3_000
/** The limit for the service to notice that all connections have closed. */
const AGAIN_MS = 30_000

const postmaster = (cloud: Cloud) => readFileSync(join(cloud.dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0]

test('a flood of connections breaks neither the database nor a session, and afterwards everything works as before', async () => {
  await using cloud = await startCloud({ COB_WARM_BROWSERS: '0' }, { files: FILES })
  await using session = await openSession(cloud, { timeout_seconds: 300 })
  const database = postmaster(cloud)
  const sockets: Socket[] = []
  const { port } = new URL(cloud.url)
  for (let count = 0; count < CONNECTIONS; count++) {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write('GET /browsers HTTP/1.1\r\nHost: here\r\n'))
    sockets.push(socket.on('error', () => {}))
  }
  await sleep(HELD_MS)
  expect(await session.page.evaluate('6 * 7')).toBe(42)
  for (const socket of sockets) socket.destroy()
  await until(
    'the service to answer',
    AGAIN_MS,
    () =>
      fetch(`${cloud.url}/health`)
        .then(({ ok }) => ok)
        .catch(() => false),
    { everyMs: 50 },
  )
  expect((await cloud.client.browsers.retrieve(session.id)).session_id).toBe(session.id)
  const made = await cloud.client.browsers.create()
  await cloud.client.browsers.deleteByID(made.session_id)
  expect(postmaster(cloud)).toBe(database)
  expect(cloud.log()).not.toMatch(/Postgres ended|EMFILE/)
})
