// API keys: made, hashed, checked. Their table has only the SHA-256.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { ConfigError } from '../../base/setting.ts'
import { newId } from '../../base/ids.ts'
import { secretFile } from '../../base/secret-file.ts'
import { fault } from '../../http/fault.ts'
import type { ByKey } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import type { Rights } from './rights.ts'

/** A new key: 160 random bits, no dots (clients treat a token with two dots as a JWT). */
export const newKey = (): string => `cob_${randomBytes(20).toString('hex')}`

/** Tables store keys, cookies and tokens only as this hash. */
export const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()

/** Keys from settings may be as short as 16 characters. For a key shorter than this, 12 shown characters would reveal too much. */
const SHORT_KEY = 32

/** The first 8 and last 4 characters, as clients display keys; fewer for a short one. */
const mask = (key: string): string => (key.length < SHORT_KEY ? `${key.slice(0, 2)}…${key.slice(-2)}` : `${key.slice(0, 8)}…${key.slice(-4)}`)

/** The stored form of a key. */
export const storedKey = (key: string): { hash: Buffer; masked: string } => ({ hash: hashOf(key), masked: mask(key) })

/** The source of a service's own key: the setting, or the file that the service makes without one. */
export type KeySetting = 'COB_API_KEY' | 'first key'

/** The service's own key. `isNew`: this start made it. `file` contains it unless it came from the settings. */
export interface OwnKey {
  value: string
  isNew: boolean
  file: string | undefined
}

/**
 * Makes the service's own key valid: `setting` (COB_API_KEY), or else the key in `file`, which is created if needed.
 * @throws ConfigError when a project or an app has this key
 */
export async function ownKey(db: Db, scope: string, setting: string | undefined, file: string): Promise<OwnKey> {
  if (setting) {
    await assertFree(db, setting, 'COB_API_KEY', 'set it to another value')
    await allowKey(db, scope, 'COB_API_KEY', setting)
    return { value: setting, isNew: false, file: undefined }
  }
  const { value, made } = secretFile(file, newKey)
  await assertFree(db, value, file, 'remove this file, and the next start makes a new key')
  await forbidKeys(db, scope, 'COB_API_KEY')
  await allowKey(db, scope, 'first key', value)
  return { value, isNew: made, file }
}

/**
 * Otherwise everybody in a project, or an app's code, would have a key for all projects. A deleted key counts, too: its earlier owners still know it.
 * @throws ConfigError naming `from`, the source of the key
 */
async function assertFree(db: Db, key: string, from: string, remedy: string): Promise<void> {
  const taken = await db
    .selectFrom('api_keys as k')
    .leftJoin('projects as p', 'p.id', 'k.project_id')
    .select(['k.name', 'k.deployment_id', 'p.name as project'])
    .where('k.hash', '=', hashOf(key))
    .where((eb) => eb.or([eb('k.project_id', 'is not', null), eb('k.deployment_id', 'is not', null)]))
    .limit(1)
    .executeTakeFirst()
  if (!taken) return
  const whose =
    taken.deployment_id === null
      ? `is the API key "${taken.name}" of the project "${taken.project}"`
      : `is the key of an app (deployment ${taken.deployment_id})`
  throw new ConfigError(from, `${whose}, and would become a key for all projects: ${remedy}`)
}

/**
 * Makes `key` the only valid key that `scope` has by `setting`, also when callers have deleted it or let it expire. Keys of other scopes stay unchanged, even
 * an equal one.
 */
export async function allowKey(db: Db, scope: string, setting: KeySetting, key: string): Promise<void> {
  const { hash, masked } = storedKey(key)
  await forbidKeys(db, scope, setting, hash)
  await db
    .insertInto('api_keys')
    .values({ id: newId(), name: setting, setting, hash, masked, scope })
    .onConflict((conflict) => conflict.columns(['hash', 'scope']).doUpdateSet({ setting, masked, deleted_at: null, expires_at: null }))
    .execute()
}

/** Deletes every key that `scope` has by `setting`, or that belongs to no scope (from before keys had scopes), except the one with hash `except`. */
export async function forbidKeys(db: Db, scope: string, setting: KeySetting, except: Buffer = Buffer.alloc(0)): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ deleted_at: sql`now()` })
    .where('setting', '=', setting)
    .where('scope', 'in', [scope, ''])
    .where((eb) => eb.or([eb('hash', '!=', except), eb('scope', '=', '')]))
    .where('deleted_at', 'is', null)
    .execute()
}

/** Whether a row of `table` is a valid key. */
const isValid = (table: string) =>
  sql<SqlBool>`(${sql.ref(`${table}.deleted_at`)} is null and (${sql.ref(`${table}.expires_at`)} is null or ${sql.ref(`${table}.expires_at`)} > now()))`

/** Which of these keys, web sessions and grants are still valid. Several scopes may have the same key: all its rows count while one of them is valid. */
export async function stillValid(db: Db, ids: string[]): Promise<Set<string>> {
  const { rows } = await sql<{ id: string }>`
    with valid as (select k.id from api_keys k where exists (select from api_keys v where v.hash = k.hash and ${isValid('v')}))
    select id from valid where id = any(${ids})
    union all
    select s.id from web_sessions s where s.id = any(${ids}) and s.expires_at > now()
      and case when s.key_id is null then exists (select from memberships m where m.person_id = s.person_id) else s.key_id in (select id from valid) end
    union all
    select g.id from oauth_grants g where g.id = any(${ids}) and g.expires_at > now()
      and case when g.key_id is null then exists (select from memberships m where m.person_id = g.person_id) else g.key_id in (select id from valid) end`.execute(
    db,
  )
  return new Set(rows.map(({ id }) => id))
}

/** The valid key that identifies a caller. @throws 401 for the key of an app whose project was deleted */
async function findValid(db: Db, which: RawBuilder<SqlBool>): Promise<{ key: ByKey; hash: Buffer; leftMs: number | null } | undefined> {
  const row = await db
    .selectFrom('api_keys')
    .select(['id', 'hash', 'deployment_id', 'project_id', sql<number | null>`(extract(epoch from expires_at - now()) * 1000)::float8`.as('leftMs')])
    .where(which)
    .where(isValid('api_keys'))
    // Several scopes may have the same key. Each of them identifies the caller by the same row.
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  if (!row) return undefined
  // The key of an app is for one project. Without it, it is for none.
  if (row.deployment_id !== null && row.project_id === null) throw fault.unauthorized('the project of this key is gone')
  const key: ByKey = { kind: 'key', id: row.id, project: row.project_id ?? undefined, deployment: row.deployment_id ?? undefined }
  return { key, hash: row.hash, leftMs: row.leftMs }
}

/** The key with this id, if it is valid: for callers who have signed in with it. */
export const keyOf = async (db: Db, id: string): Promise<ByKey | undefined> =>
  (await findValid(db, sql<SqlBool>`hash = (select hash from api_keys where id = ${id})`))?.key

/** Finds the key that a request has shown. @throws 401 */
export type CheckKey = (token: string | undefined) => Promise<ByKey>

export function keyChecker(db: Db, rights: Rights): CheckKey {
  const good = rights.remember<ByKey>()
  return async (token) => {
    if (token === undefined) throw fault.unauthorized('an API key is required: Authorization: Bearer <key>')
    const hash = hashOf(token)
    return good.get(hash.toString('base64'), async () => {
      const row = await findValid(db, sql<SqlBool>`hash = ${hash}`)
      if (!row || !timingSafeEqual(row.hash, hash)) throw fault.unauthorized('this API key is not known, was deleted or has expired')
      return { value: row.key, leftMs: row.leftMs }
    })
  }
}

/** Makes a deployment's own key. The value is returned once and stored sealed with the deployment. */
export async function mintDeploymentKey(db: Db, deploymentId: string, project: string): Promise<string> {
  const key = newKey()
  await db
    .insertInto('api_keys')
    .values({ id: newId(), name: `deployment ${deploymentId}`, ...storedKey(key), deployment_id: deploymentId, project_id: project })
    .execute()
  return key
}

/** Deletes a deployment's key. */
export async function releaseDeploymentKey(db: Db, rights: Rights, deploymentId: string): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ deleted_at: sql`now()` })
    .where('deployment_id', '=', deploymentId)
    .where('deleted_at', 'is', null)
    .execute()
  await rights.taken()
}
