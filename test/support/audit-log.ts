// The audit log of a service in the test's process: searches it, and reads its entries where they are stored.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import type { AuditLogEntry } from '../../src/control/access/audit-logs/contract.ts'
import type { FastCloud } from './fast-cloud.ts'

const HOUR_MS = 3600_000

/** A range from one hour ago to one hour ahead. */
export const around = () => ({ start: new Date(Date.now() - HOUR_MS).toISOString(), end: new Date(Date.now() + HOUR_MS).toISOString() })

/** The path of `/audit-logs`, or of a path below it, with a query. */
export const asked = (query: Record<string, string> | URLSearchParams, below = ''): string => `/audit-logs${below}?${new URLSearchParams(query).toString()}`

/** The present entries that match. @throws when the answer is not 200 */
export async function searchLog(cloud: FastCloud, query: Record<string, string>, headers: Record<string, string> = {}): Promise<AuditLogEntry[]> {
  const response = await cloud.fetch(asked({ ...around(), ...query }), { headers })
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as AuditLogEntry[]
}

/** A new key, for one project or for all. */
export async function keyOf(cloud: FastCloud, project: string | null): Promise<{ id: string; key: string }> {
  const answer = await cloud.send('POST', '/org/api_keys', { name: 'test', ...(project !== null && { project_id: project }) })
  return (await answer.json()) as { id: string; key: string }
}

/** The rows in the buffer of this directory. */
export function bufferedIn(dir: string): string {
  using file = new DatabaseSync(join(dir, 'buffer.sqlite'), { readOnly: true })
  return (file.prepare('select json from rows').all() as { json: string }[]).map(({ json }) => json).join('\n')
}

export const buffered = ({ paths }: FastCloud): string => bufferedIn(paths.audit)

/** The rows of the audit log's table. */
export const tableText = async (cloud: FastCloud): Promise<string> =>
  (await cloud.query<{ text: string }>('select to_jsonb(audit_log)::text as text from audit_log')).map(({ text }) => text).join('\n')

/** Read the buffer first, because an entry leaves it only when the table has it. */
export const written = async (cloud: FastCloud): Promise<string> => buffered(cloud) + (await tableText(cloud))

/** Locks the table until the result is disposed: no one can read or write it. */
export async function lockTable({ paths }: FastCloud): Promise<AsyncDisposable> {
  const holder = new pg.Client({ host: paths.postgresSocket, user: 'cob', database: 'postgres' })
  await holder.connect()
  await holder.query('begin; lock table audit_log in access exclusive mode')
  return {
    async [Symbol.asyncDispose]() {
      await holder.query('rollback')
      await holder.end()
    },
  }
}
