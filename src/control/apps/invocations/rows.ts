// All queries on the table of runs.
import { sql, type Selectable, type SqlBool } from 'kysely'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { Paging } from '../../../store/lists.ts'
import { holds, isNamed } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import { invocationLifecycle, type EndState, type InvocationState } from './lifecycle.ts'

export type InvocationRow = Omit<Selectable<Tables['invocations']>, 'state'> & { state: InvocationState }

/** The result of a run. */
export interface Outcome {
  state: EndState
  /** JSON text; null for none. */
  output: string | null
  /** The reason why it failed. */
  reason: string | null
}

export interface NewInvocation {
  id: string
  project: string
  app_name: string
  version: string
  action_name: string
  payload: string | null
  isAsync: boolean
  timeoutSeconds: number
  caller: string
  requestHash: Buffer
}

/**
 * Inserts a run of the deployment that its app's version points at. It locks the version's row: a deployment that takes over the version locks the same row, so
 * it sees every run of the previous deployment. Undefined when the app, version or action does not exist, or is on another scope.
 */
export async function insertQueued(db: Db, scope: string, replica: string, made: NewInvocation): Promise<InvocationRow | undefined> {
  const { rows } = await sql<InvocationRow>`
    with named as (select deployment_id, actions from app_versions where project_id = ${made.project} and app_name = ${made.app_name} and version = ${made.version} for share)
    insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, payload, is_async, timeout_seconds, caller, request_hash, replica)
    select ${made.id}, ${made.project}, 'queued', deployment_id, ${made.app_name}, ${made.version}, ${made.action_name}, ${made.payload},
      ${made.isAsync}, ${made.timeoutSeconds}, ${made.caller}, ${made.requestHash}, ${replica}
    from named
    where actions @> ${JSON.stringify([{ name: made.action_name }])}::jsonb
      and exists (select from deployments d where d.id = named.deployment_id and d.scope = ${scope})
    returning *`.execute(db)
  return rows[0]
}

/** The versions of an app with their actions, to tell a caller what is missing. */
export const versionsOf = (db: Db, project: string, app: string): Promise<{ version: string; actions: { name: string }[] }[]> =>
  db.selectFrom('app_versions').select(['version', 'actions']).where('project_id', '=', project).where('app_name', '=', app).execute()

/** Most equal runs that are read. No service has more seats. */
const MAX_REPEATED = 1_000

/** Synchronous runs of the same caller and request that have not ended, or ended less than `seconds` ago; the newest first. */
export async function findRepeated(db: Db, caller: string, requestHash: Buffer, seconds: number): Promise<Pick<InvocationRow, 'id' | 'finished_at'>[]> {
  return db
    .selectFrom('invocations')
    .select(['id', 'finished_at'])
    .where('request_hash', '=', requestHash)
    .where('caller', '=', caller)
    .where('is_async', '=', false)
    .where((eb) => eb.or([eb('finished_at', 'is', null), eb('finished_at', '>', sql<Date>`now() - ${seconds} * interval '1 second'`)]))
    .orderBy('started_at', 'desc')
    .limit(MAX_REPEATED)
    .execute()
}

export async function findInvocation(db: Db, id: string): Promise<InvocationRow | undefined> {
  return (await db.selectFrom('invocations').selectAll().where('id', '=', id).executeTakeFirst()) as InvocationRow | undefined
}

/** The deployment of a run, and the replica that follows it, or followed it last. Without payload and output, which may be large. */
export const placeOf = (db: Db, id: string): Promise<{ deployment_id: string; replica: string | null } | undefined> =>
  db.selectFrom('invocations').select(['deployment_id', 'replica']).where('id', '=', id).executeTakeFirst()

/** Runs whose id has this prefix, at most two. The upper bound makes the index usable with every collation of the database. */
export async function findByPrefix(db: Db, project: string, prefix: string): Promise<InvocationRow[]> {
  const { rows } = await sql<InvocationRow>`
    select * from invocations where project_id = ${project} and id >= ${prefix} and id <= ${prefix.padEnd(24, 'z')} and starts_with(id, ${prefix}) limit 2`.execute(
    db,
  )
  return rows
}

/** The result of a run, by its row; undefined while it runs. A missing row was deleted with its deployment. */
export function outcomeOf(row: InvocationRow | undefined): Outcome | undefined {
  if (!row) return { state: 'failed', output: null, reason: 'its deployment was deleted' }
  return invocationLifecycle.isTerminal(row.state) ? { state: row.state as EndState, output: row.output, reason: row.status_reason } : undefined
}

export interface ListFilter extends Paging {
  app_name?: string | undefined
  action_name?: string | undefined
  version?: string | undefined
  deployment_id?: string | undefined
  status?: InvocationState | undefined
  since: Date | undefined
  query?: string | undefined
}

/** Characters of a payload or output in lists. A page of the largest ones would have half a gigabyte. */
const MAX_LISTED = 64 * 1024
const listed = (column: 'payload' | 'output') =>
  sql<string | null>`case when length(${sql.ref(column)}) <= ${MAX_LISTED} then ${sql.ref(column)} end`.as(column)

/** One page of runs, newest first, with one row more than `limit` when there are more. */
export async function listInvocations(db: Db, project: string, filter: ListFilter): Promise<InvocationRow[]> {
  const { query } = filter
  const rows = await db
    .selectFrom('invocations')
    .select(['id', 'state', 'status_reason', 'app_name', 'version', 'action_name', 'started_at', 'finished_at', listed('payload'), listed('output')])
    .where('project_id', '=', project)
    .$if(filter.app_name !== undefined, (select) => select.where(isNamed('app_name', filter.app_name!)))
    .$if(filter.action_name !== undefined, (select) => select.where(isNamed('action_name', filter.action_name!)))
    .$if(filter.version !== undefined, (select) => select.where('version', '=', filter.version!))
    .$if(filter.deployment_id !== undefined, (select) => select.where('deployment_id', '=', filter.deployment_id!))
    .$if(filter.status !== undefined, (select) => select.where('state', '=', filter.status!))
    .$if(filter.since !== undefined, (select) => select.where('started_at', '>=', filter.since!))
    .$if(Boolean(query), (select) =>
      select.where((eb) => eb.or([sql<boolean>`starts_with(id, ${query})`, holds('app_name', query!), holds('action_name', query!)])),
    )
    .orderBy('started_at', 'desc')
    .orderBy('id')
    .offset(filter.offset)
    .limit(filter.limit + 1)
    .execute()
  return rows as unknown as InvocationRow[]
}

const OVERDUE = sql<boolean>`i.started_at + i.timeout_seconds * interval '1 second' < now()`

/** Makes this replica the follower of the unfinished runs of dead replicas. Returns these, and whether their time limit has passed. */
export async function takeOverRuns(db: Db, scope: string, { replica, isDead }: Leases): Promise<(InvocationRow & { overdue: boolean })[]> {
  const { rows } = await sql<InvocationRow & { overdue: boolean }>`
    update invocations i set replica = ${replica} from deployments d
    where d.id = i.deployment_id and d.scope = ${scope} and i.finished_at is null and ${isDead(sql.ref('i.replica'))}
    returning i.*, ${OVERDUE} as overdue`.execute(db)
  return rows
}

/** Runs that this replica follows and that have not ended, without payload and output, which may be large. */
export const followedRuns = (db: Db, scope: string, replica: string): Promise<{ id: string; timeout_seconds: number; overdue: boolean }[]> =>
  db
    .selectFrom('invocations as i')
    .innerJoin('deployments as d', 'd.id', 'i.deployment_id')
    .select(['i.id', 'i.timeout_seconds', OVERDUE.as('overdue')])
    .where('i.finished_at', 'is', null)
    .where('i.replica', '=', replica)
    .where('d.scope', '=', scope)
    .execute()

/** The sandboxes of all unfinished runs of this scope. */
export async function sandboxesOfRuns(db: Db, scope: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('invocations as i')
    .innerJoin('deployments as d', 'd.id', 'i.deployment_id')
    .select('i.runner_id')
    .where('i.finished_at', 'is', null)
    .where('i.runner_id', 'is not', null)
    .where('d.scope', '=', scope)
    .execute()
  return new Set(rows.map(({ runner_id }) => runner_id!))
}

/** The position up to which a run's events are stored, and the replica that follows it. */
export const positionOf = (db: Db, id: string): Promise<Pick<InvocationRow, 'runner_id' | 'runner_seq' | 'replica' | 'finished_at'> | undefined> =>
  db.selectFrom('invocations').select(['runner_id', 'runner_seq', 'replica', 'finished_at']).where('id', '=', id).executeTakeFirst()

/** Unfinished runs of a scope, or of a project in every scope. */
export async function countUnfinished(db: Db, whose: { scope: string } | { project: string }): Promise<number> {
  const { runs } = await db
    .selectFrom('invocations as i')
    .innerJoin('deployments as d', 'd.id', 'i.deployment_id')
    .select((eb) => eb.fn.countAll<string>().as('runs'))
    .where('i.finished_at', 'is', null)
    .where('scope' in whose ? sql<SqlBool>`d.scope = ${whose.scope}` : sql<SqlBool>`i.project_id = ${whose.project}`)
    .executeTakeFirstOrThrow()
  return Number(runs)
}

/** Unfinished runs of a deployment, in this process or not. */
export async function unfinishedOf(db: Db, deployment: string): Promise<string[]> {
  const rows = await db.selectFrom('invocations').select('id').where('deployment_id', '=', deployment).where('finished_at', 'is', null).execute()
  return rows.map(({ id }) => id)
}

/** Those of `deployments` that a version of an app points at. New runs use only these. */
export async function pointedAt(db: Db, deployments: readonly string[]): Promise<Set<string>> {
  if (deployments.length === 0) return new Set()
  const rows = await db
    .selectFrom('app_versions')
    .select('deployment_id')
    .where('deployment_id', 'in', [...deployments])
    .execute()
  return new Set(rows.map(({ deployment_id }) => deployment_id))
}
