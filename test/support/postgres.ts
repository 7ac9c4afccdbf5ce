// A Postgres of a test's own, as the service starts it, from the template of all data directories.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { sql } from 'kysely'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import type { Db } from '../../src/store/db.ts'
import { startPostgres, type EmbeddedPostgres } from '../../src/store/embedded.ts'
import { scratchDir } from './scratch.ts'
import { copyTemplate } from './template.ts'

const START_MS = 60_000

/** Starts it; `scope` stops it and removes its data. `host` is its socket's folder. */
export async function ownPostgres(name: string, scope: AsyncDisposableStack): Promise<EmbeddedPostgres & { host: string }> {
  const paths = dataPaths(scratchDir(`cob-${name}-`))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  return Object.assign(postgres, { host: paths.postgresSocket })
}

/** The port on this machine's loopback at which the Postgres of a socket's folder is reached by TCP, for containers and pods; until `scope` ends. */
export async function overTcp(host: string, scope: AsyncDisposableStack): Promise<number> {
  const server = createServer((socket) => {
    const postgres = connect(join(host, '.s.PGSQL.5432'))
    for (const end of [socket, postgres]) end.on('error', () => {}).on('close', () => (socket.destroy(), postgres.destroy()))
    socket.pipe(postgres).pipe(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  scope.defer(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** Makes a database say that it has the migrations of before the first release, up to `last`. */
export async function beforeRelease(db: Db, last: string): Promise<void> {
  await sql`delete from kysely_migration`.execute(db)
  for (const [at, name] of ['0001-foundation', '0002-apps', '0037-oauth', '0038-build-sandboxes'].entries())
    if (name <= last) await sql`insert into kysely_migration values (${name}, ${`2026-11-0${at + 1}T00:00:00.000Z`})`.execute(db)
}
