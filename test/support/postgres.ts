// A Postgres for one test, started as the service does, from the template of all data directories.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { sql } from 'kysely'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths } from '../../src/base/paths.ts'
import { migratorOf, type Db } from '../../src/store/db.ts'
import { startPostgres, type EmbeddedPostgres } from '../../src/store/embedded.ts'
import { scratchDir } from './scratch.ts'
import { copyTemplate } from './template.ts'

const START_MS = 60_000

/** Starts a Postgres. `scope` stops it and removes its data. `host` is the folder of its socket. */
export async function ownPostgres(name: string, scope: AsyncDisposableStack): Promise<EmbeddedPostgres & { host: string }> {
  const paths = dataPaths(scratchDir(`cob-${name}-`))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  return Object.assign(postgres, { host: paths.postgresSocket })
}

/** Makes the Postgres of a socket's folder reachable over TCP on this machine's loopback, for containers and pods, until `scope` ends. Resolves with the port. */
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

/** Empties a database, and gives it the tables of the first release under the names of the migrations before it, up to `last`. */
export async function beforeRelease(db: Db, last: string): Promise<void> {
  await sql`drop schema public cascade`.execute(db)
  await sql`create schema public`.execute(db)
  const { error } = await migratorOf(db).migrateTo('0001-schema')
  if (error) throw error
  await sql`delete from kysely_migration`.execute(db)
  for (const [at, name] of ['0001-foundation', '0002-apps', '0037-oauth', '0038-build-sandboxes'].entries())
    if (name <= last) await sql`insert into kysely_migration values (${name}, ${`2026-11-0${at + 1}T00:00:00.000Z`})`.execute(db)
}
