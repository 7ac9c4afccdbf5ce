// API keys: made, hashed, checked. Their table holds only the SHA-256.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { sql } from 'kysely'
import { newId } from '../../base/ids.ts'
import { fault } from '../../http/fault.ts'
import type { ByKey } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'

/** How long a checked key stays valid without another query. A deleted key may still work for this long. */
const REMEMBER_MS = 2_000
const REMEMBER_KEYS = 1_000

/** A new key: 160 random bits, no dots (clients take a token with two dots for a JWT). */
export const newKey = (): string => `cob_${randomBytes(20).toString('hex')}`

const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest()

/** The first 8 and last 4 characters, as clients display keys. */
const mask = (key: string): string => `${key.slice(0, 8)}…${key.slice(-4)}`

/** Makes `key` the only valid key that `scope` has under `name`. Keys of other scopes stay as they are, also an equal one. */
export async function allowKey(db: Db, scope: string, name: string, key: string): Promise<void> {
  const hash = hashOf(key)
  await forbidKeys(db, scope, name, hash)
  await db
    .insertInto('api_keys')
    .values({ id: newId(), name, hash, masked: mask(key), scope, deployment_id: null, project_id: null, deleted_at: null })
    .onConflict((conflict) => conflict.columns(['hash', 'scope']).doUpdateSet({ name, deleted_at: null }))
    .execute()
}

/** Deletes every key of that name that `scope` has, or that belongs to no scope (it is older than scopes of keys), except the one with hash `except`. */
export async function forbidKeys(db: Db, scope: string, name: string, except: Buffer = Buffer.alloc(0)): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ deleted_at: sql`now()` })
    .where('name', '=', name)
    .where('scope', 'in', [scope, ''])
    .where((eb) => eb.or([eb('hash', '!=', except), eb('scope', '=', '')]))
    .where('deleted_at', 'is', null)
    .execute()
}

/** Tells whose key a request has shown. @throws 401 */
export type CheckKey = (token: string | undefined) => Promise<ByKey>

export function keyChecker(db: Db): CheckKey {
  const good = new Map<string, { key: ByKey; until: number }>()
  return async (token) => {
    if (token === undefined) throw fault.unauthorized('an API key is required: Authorization: Bearer <key>')
    const hash = hashOf(token)
    const name = hash.toString('base64')
    const known = good.get(name)
    if (known && known.until > performance.now()) return known.key
    const row = await db
      .selectFrom('api_keys')
      .select(['id', 'hash', 'deployment_id', 'project_id'])
      .where('hash', '=', hash)
      .where('deleted_at', 'is', null)
      // Several scopes may have the same key. The caller is the same one on each.
      .orderBy('created_at')
      .orderBy('id')
      .limit(1)
      .executeTakeFirst()
    if (!row || !timingSafeEqual(row.hash, hash)) throw fault.unauthorized('this API key is not known')
    if (good.size >= REMEMBER_KEYS) good.clear()
    const key: ByKey = { kind: 'key', id: row.id, project: row.project_id ?? undefined, deployment: row.deployment_id ?? undefined }
    good.set(name, { key, until: performance.now() + REMEMBER_MS })
    return key
  }
}

/** Makes a deployment's own key. The value is returned once and stored sealed with the deployment. */
export async function mintDeploymentKey(db: Db, deploymentId: string, project: string): Promise<string> {
  const key = newKey()
  await db
    .insertInto('api_keys')
    .values({
      id: newId(),
      name: `deployment ${deploymentId}`,
      hash: hashOf(key),
      masked: mask(key),
      deployment_id: deploymentId,
      project_id: project,
      deleted_at: null,
    })
    .execute()
  return key
}

/** Deletes a deployment's key; it may still work for {@link REMEMBER_MS}. */
export async function releaseDeploymentKey(db: Db, deploymentId: string): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ deleted_at: sql`now()` })
    .where('deployment_id', '=', deploymentId)
    .where('deleted_at', 'is', null)
    .execute()
}
