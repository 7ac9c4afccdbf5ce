// Databases that a service refuses at its start, and the messages.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownPostgres } from '../../test/support/postgres.ts'
import { checkDatabaseUrl } from './database-url.ts'

const START_MS = 60_000

const scope = new AsyncDisposableStack()
let host: string
beforeAll(async () => {
  ;({ host } = await ownPostgres('database-url', scope))
})
afterAll(() => scope.disposeAsync())

async function query(database: string, ...texts: string[]): Promise<void> {
  const client = new pg.Client({ host, user: 'cob', database })
  await client.connect()
  try {
    for (const text of texts) await client.query(text)
  } finally {
    await client.end()
  }
}
const check = (database: string) => checkDatabaseUrl(`postgres://cob@/${database}?host=${host}`, AbortSignal.timeout(START_MS))

test('the embedded Postgres has all that is needed', async () => {
  await expect(check('postgres')).resolves.toBeUndefined()
})

test('a database without UTF-8 is refused, with how to make one', async () => {
  await query('postgres', `create database bytes encoding 'SQL_ASCII' locale 'C' template template0`)
  await expect(check('bytes')).rejects.toThrow(/^DATABASE_URL: the database "bytes" at .* has the encoding SQL_ASCII: make one with UTF8/)
})

test('a database without ICU is refused', async () => {
  await query('postgres', 'create database plain template template0')
  await query('plain', 'drop collation pg_catalog."und-x-icu"')
  await expect(check('plain')).rejects.toThrow(
    /^DATABASE_URL: the database "plain" at .* has no ICU collations \(und-x-icu\): use a Postgres that was built with ICU/,
  )
})

test('a database that there is not is named', async () => {
  await expect(check('nonesuch')).rejects.toThrow(/^DATABASE_URL: Postgres at .* has no database "nonesuch": create it/)
})
