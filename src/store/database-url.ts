// Checks once, at the start of the service, that the Postgres in DATABASE_URL accepts a connection, and can compare names.
import pg from 'pg'
import { ConfigError } from '../base/setting.ts'
import { within } from '../base/wait.ts'

const CONNECT_MS = 10_000

/**
 * Connects once. Messages name the host and the port, never the password or the whole string.
 * @throws ConfigError that names the problem of the address or of its Postgres
 */
export async function checkDatabaseUrl(connectionString: string, signal: AbortSignal): Promise<void> {
  const client = clientFor(connectionString)
  client.on('error', () => {}) // the connect below rejects as well
  try {
    await within('the database', CONNECT_MS + 1_000, client.connect(), signal)
    const lacks = await within('the database', CONNECT_MS, lacking(client), signal)
    if (lacks) throw new ConfigError('DATABASE_URL', `the database "${client.database}" at ${place(client)} ${lacks}`)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ConfigError) throw error
    throw new ConfigError('DATABASE_URL', `Postgres at ${place(client)} ${problem(error, client)}`)
  } finally {
    // Not awaited: closing a connection to a server that does not answer may take for ever.
    void client.end().catch(() => {})
  }
}

/** The missing feature for comparing names in all alphabets; undefined when nothing is missing. */
async function lacking(client: pg.Client): Promise<string | undefined> {
  const { rows } = await client.query<{ encoding: string; hasIcu: boolean }>(
    `select current_setting('server_encoding') as encoding, exists (select from pg_collation where collname = 'und-x-icu') as "hasIcu"`,
  )
  const [{ encoding, hasIcu }] = rows as [(typeof rows)[number]]
  if (encoding !== 'UTF8') return `has the encoding ${encoding}: make one with UTF8, for example by "create database cob encoding 'UTF8' template template0"`
  if (!hasIcu) return 'has no ICU collations (und-x-icu): use a Postgres that was built with ICU, as the usual packages are'
  return undefined
}

function clientFor(connectionString: string): pg.Client {
  try {
    if (/^(postgres(ql)?:\/\/|socket:|\/)/.test(connectionString)) return new pg.Client({ connectionString, connectionTimeoutMillis: CONNECT_MS })
  } catch {} // its error would quote the password
  throw new ConfigError('DATABASE_URL', 'is not the address of a Postgres: it must look like postgres://user:password@host:5432/database')
}

function place({ host, port }: pg.Client): string {
  if (host.startsWith('/')) return `${host}/.s.PGSQL.${port}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function problem(error: unknown, { user, database }: pg.Client): string {
  // A host with several addresses fails with one error for each of them.
  const { code = '', message } = (error instanceof AggregateError ? error.errors[0] : error) as { code?: string; message: string }
  if (code === 'ECONNREFUSED' || code === 'ENOENT') return 'does not accept connections: is it running, and is this its address?'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'has an unknown host name'
  if (code.startsWith('28')) return `refuses the user "${user ?? ''}": ${message}`
  if (code === '3D000') return `has no database "${database ?? ''}": create it, or name another`
  if (/timeout|within/i.test(message)) return `did not answer within ${CONNECT_MS / 1000} s`
  return `cannot be used: ${message}`
}
