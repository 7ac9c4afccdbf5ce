// Exports of a service with fake browsers: which entries reach a destination, and when. The server checks signatures as S3 and STS do.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { searchLog } from '../../../../../test/support/audit-log.ts'
import { ROLE, startExporting, type Exporting } from '../../../../../test/support/audit-exports.ts'
import { newId } from '../../../../base/ids.ts'
import { until } from '../../../../base/wait.ts'
import type { AuditLogEntry } from '../contract.ts'
import { oldExports } from '../purge.ts'
import { rowOf, storeRows, type AuditRow } from '../rows.ts'
import type { ExportDestination } from './contract.ts'

const SOON_MS = 20_000
const HOUR_MS = 3600_000

let it: Exporting
beforeAll(async () => {
  it = await startExporting()
})
afterAll(() => it[Symbol.asyncDispose]())

/** A destination that is active until the result is disposed. */
async function active(more: object = {}) {
  const made = await it.create(more)
  await it.change(made.id, { status: 'active' })
  return { ...made, [Symbol.asyncDispose]: async () => void (await it.remove(made.id)) }
}

/** A request whose path is in no other entry. */
async function mark(method = 'GET'): Promise<string> {
  const path = `/org/projects/${newId()}`
  await it.cloud.fetch(path, { method })
  return path
}
const exported = ({ prefix }: Pick<ExportDestination, 'prefix'>): AuditLogEntry[] => it.s3.exported('logs', prefix).flat()
const got = async (at: Pick<ExportDestination, 'prefix'>, path: string) =>
  until(`the export of ${path}`, SOON_MS, () => exported(at).find((entry) => entry.path === path), { everyMs: 20 })

/** Stores rows late, as another replica may do. */
async function store(...rows: AuditRow[]): Promise<void> {
  await storeRows(it.cloud.db)(rows)
}

const row = (at: Date, status = 200): AuditRow =>
  rowOf({
    at,
    by: { kind: 'session', id: 's' },
    project: undefined,
    method: 'GET',
    path: `/late/${newId()}`,
    route: '/late',
    status,
    durationMs: 1,
    domain: '',
    clientIp: '',
    userAgent: '',
  })

test('from its activation on, a destination gets the entries that callers see in the log, in folders of their hours', async () => {
  const made = await it.create({ role_arn: ROLE })
  it.s3.roles.set(ROLE, made.external_id)
  const before = await mark()
  await it.change(made.id, { status: 'active' })
  const { assumed } = it.s3.counts
  const first = await mark('DELETE')
  await got(made, first)
  const second = await mark()
  await got(made, second)
  const log = await searchLog(it.cloud, { search: '/org/projects/' })
  const entries = exported(made)
  expect(entries.map(({ path }) => path)).not.toContain(before)
  for (const path of [first, second]) expect(entries.filter((entry) => entry.path === path)).toEqual(log.filter((entry) => entry.path === path))
  expect(new Set(entries.map(({ event_id }) => event_id)).size).toBe(entries.length)
  const keys = [...it.s3.objects.keys()].filter((key) => key.startsWith(`logs/${made.prefix}/`))
  const layout = /^date=\d{4}-\d\d-\d\d\/hour=\d\d\/\d{8}T\d{9}Z-[0-9a-f]{16}\.jsonl\.gz$/
  for (const key of keys) expect(key.slice(`logs/${made.prefix}/destination_id=${made.id}/org_id=defaultorganization00000/`.length)).toMatch(layout)
  expect(it.s3.objects.get(keys[0]!)).toMatchObject({ role: ROLE, headers: { 'content-type': 'application/gzip' } })
  // One use of the role serves many objects.
  expect([keys.length > 1, it.s3.counts.assumed - assumed]).toEqual([true, 1])
  expect(await it.get(made.id)).toMatchObject({
    consecutive_failures: 0,
    last_success_at: expect.any(String),
    last_exported_cursor: expect.stringMatching(/^v1\.\d+\.[a-z0-9]{24}$/),
  })
  await it.remove(made.id)
})

test('nothing of a paused time is exported, what came before it is; and nothing after a deletion', async () => {
  await using made = await active()
  it.s3.trouble = { status: 503 }
  const early = await mark()
  await until('a failure', SOON_MS, async () => (await it.get(made.id)).consecutive_failures > 0)
  await it.change(made.id, { status: 'paused' })
  it.s3.trouble = {}
  const paused = await mark()
  await searchLog(it.cloud, {})
  await it.change(made.id, { status: 'active' })
  const late = await mark()
  await got(made, late)
  await got(made, early)
  expect(exported(made).map(({ path }) => path)).not.toContain(paused)
  await it.remove(made.id)
  await mark()
  await searchLog(it.cloud, {})
  const since = `select u.at from audit_log_undelivered u join audit_log_destinations d on d.id = u.destination_id where d.id = $1 and u.at > d.deleted_at`
  expect(await it.cloud.query(since, [made.id])).toEqual([])
})

test('a store that is away gets everything when it is back; meanwhile attempts are rarer and rarer, and the destination says why', async () => {
  await using made = await active()
  it.s3.trouble = { status: 503 }
  const paths = [await mark(), await mark('DELETE')]
  await until('two failures', SOON_MS, async () => (await it.get(made.id)).consecutive_failures >= 2)
  const failing = await it.get(made.id)
  expect(failing).toMatchObject({
    status: 'active',
    last_error: 'put_object_failed: SlowDown: Please reduce your request rate. (503)',
    last_error_at: expect.any(String),
  })
  expect(Date.parse(failing.next_attempt_at!) - Date.parse(failing.last_error_at!)).toBe(1000 * 2 ** (failing.consecutive_failures - 1))
  expect(exported(made)).toEqual([])
  it.s3.trouble = {}
  // A change triggers the next attempt at once.
  expect(await it.change(made.id, { region: 'eu-west-2' })).not.toHaveProperty('next_attempt_at')
  for (const path of paths) await got(made, path)
  // Its row is updated after its objects are written.
  await until('the destination to be well', SOON_MS, async () => (await it.get(made.id)).consecutive_failures === 0)
  expect((await it.get(made.id)).next_attempt_at).toBeUndefined()
})

test('entries that are stored hours late are exported all the same, those of a paused time not', async () => {
  const { id, prefix } = await it.create()
  const [never, late] = [row(new Date(Date.now() - 3 * HOUR_MS)), row(new Date(Date.now() - HOUR_MS))]
  await it.cloud.query(
    `update audit_log_destinations set status = 'active', active = tstzmultirange(tstzrange(now() - interval '2 hours', null)) where id = $1`,
    [id],
  )
  const now = await mark()
  await got({ prefix }, now)
  // Its time is before all exported entries.
  await store(never, late)
  await got({ prefix }, late.path)
  expect(exported({ prefix }).map(({ path }) => path)).not.toContain(never.path)
  // Each folder has the entries of one hour.
  for (const entries of it.s3.exported('logs', prefix)) expect(new Set(entries.map(({ timestamp }) => timestamp.slice(0, 13))).size).toBe(1)
  await it.remove(id)
})

test('a call is exported when it has its result; without one after 15 minutes, and again when the result comes', async () => {
  const { id, prefix } = await it.create()
  await it.cloud.query(`update audit_log_destinations set status = 'active', active = '{[,)}' where id = $1`, [id])
  const [young, old] = [row(new Date(Date.now() - 60_000), 0), row(new Date(Date.now() - 16 * 60_000), 0)]
  await store(young, old)
  expect(await got({ prefix }, old.path)).toMatchObject({ status: 0 })
  await got({ prefix }, await mark())
  expect(exported({ prefix }).map(({ path }) => path)).not.toContain(young.path)
  await store(...[young, old].map((each) => ({ ...each, status: 204, duration_ms: 7 })))
  await got({ prefix }, young.path)
  await until('the result', SOON_MS, () => exported({ prefix }).some(({ path, status }) => path === old.path && status === 204))
  expect(exported({ prefix }).filter(({ path }) => path === young.path)).toMatchObject([{ status: 204, duration_ms: 7 }])
  await it.remove(id)
})

test('a result that comes while its entry is on its way without one is exported as well', async () => {
  const { id, prefix } = await it.create()
  await it.cloud.query(`update audit_log_destinations set status = 'active', active = '{[,)}' where id = $1`, [id])
  const old = row(new Date(Date.now() - 16 * 60_000), 0)
  it.s3.trouble = { ms: 1_000 }
  const { begun } = it.s3.counts
  await store(old)
  await until('the object', SOON_MS, () => it.s3.counts.begun > begun)
  await store({ ...old, status: 204, duration_ms: 7 })
  it.s3.trouble = {}
  await until('the result', SOON_MS, () => exported({ prefix }).filter(({ path }) => path === old.path).length === 2)
  expect(new Set(exported({ prefix }).flatMap(({ path, status }) => (path === old.path ? [status] : [])))).toEqual(new Set([0, 204]))
  await it.remove(id)
})

test('a destination that takes no object holds up no other one', async () => {
  await using stuck = await active({ bucket: 'none' })
  await using well = await active()
  const path = await mark()
  await got(well, path)
  await until('the failure', SOON_MS, async () => (await it.get(stuck.id)).consecutive_failures > 0)
})

test('what is left of deleted destinations is removed, and entries that are too old to be exported', async () => {
  const [gone, kept] = [await it.create(), await it.create()]
  const age = async (id: string, days: number) =>
    it.cloud.query(`insert into audit_log_undelivered values ($1, now() - $2 * interval '1 day', $3)`, [id, days, newId()])
  for (const { id } of [gone, kept]) for (const days of [1, 11]) await age(id, days)
  await it.remove(gone.id)
  const purge = async () => {
    await oldExports(it.cloud.db, 30, 10).run(new AbortController().signal)
    const left = await it.cloud.query<{ destination_id: string }>('select destination_id from audit_log_undelivered where destination_id in ($1, $2)', [
      gone.id,
      kept.id,
    ])
    const rows = await it.cloud.query<{ id: string }>('select id from audit_log_destinations where id in ($1, $2) order by created_at', [gone.id, kept.id])
    return [left.map((entry) => entry.destination_id), rows.map(({ id }) => id)]
  }
  expect(await purge()).toEqual([[kept.id], [gone.id, kept.id]])
  await it.cloud.query(`update audit_log_destinations set deleted_at = now() - interval '31 days' where id = $1`, [gone.id])
  expect(await purge()).toEqual([[kept.id], [kept.id]])
  await it.remove(kept.id)
})
