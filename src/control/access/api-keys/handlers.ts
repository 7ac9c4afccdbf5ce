// The rules of the API keys group: who may make, see and end which keys.
import { sql } from 'kysely'
import { fault } from '../../../http/fault.ts'
import { isAccount, known, type Handlers, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Rights } from '../rights.ts'
import { GRACE_DAYS, MAX_DAYS, type apiKeys as contract, type Create } from './contract.ts'
import { afterSeconds, holdProject, changeKey, findKey, insertKey, listKeys, outlived, record, shortenKey, type KeyRow, type NewKey } from './rows.ts'

const DAY_SECONDS = 86_400
const KIND = 'API key'

/** Who manages keys: the caller's own key, and the only project whose keys it may manage. @throws 403 for the code of an app */
function manager(principal: Principal | undefined): { id: string; project: string | undefined } {
  const { by } = known(principal)
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to manage API keys")
  return { id: by.id, project: by.project }
}

/**
 * Refuses a key that would live longer than the key of a project by which it is made: otherwise that one's own end would mean nothing. Keys for all projects may
 * give any lifetime. @throws 400
 */
async function assertNotLonger(db: Db, by: ReturnType<typeof manager>, field: 'days_to_expire' | 'expires_at', expiresAt: NewKey['expiresAt']): Promise<void> {
  const end = by.project === undefined ? undefined : await outlived(db, by.id, expiresAt)
  if (!end) return
  const what = expiresAt ? 'the new key would outlive' : 'must be given: a key without an end would outlive'
  throw fault.field(field, `${what} the key that makes it, which expires at ${end.toISOString()}; a key for all projects may make one that lives longer`)
}

/** When a key that is asked for expires. @throws 400 */
function expiry({ days_to_expire: days, expires_at: at }: Pick<Create, 'days_to_expire' | 'expires_at'>): NewKey['expiresAt'] {
  if (days !== undefined) return afterSeconds(days * DAY_SECONDS)
  if (at === undefined) return null
  const seconds = (Date.parse(at) - Date.now()) / 1000
  if (!(seconds > 0)) throw fault.field('expires_at', 'must be in the future')
  if (seconds > MAX_DAYS * DAY_SECONDS) throw fault.field('expires_at', `must be within ${MAX_DAYS} days`)
  return sql<Date>`${new Date(at).toISOString()}::timestamptz`
}

export function apiKeyHandlers(db: Db, rights: Rights): Handlers<typeof contract> {
  const found = async (project: string | undefined, id: string, options: Parameters<typeof findKey>[3] = {}, within: Db = db): Promise<KeyRow> => {
    const row = await findKey(within, project, id, options)
    if (!row) throw fault.notFound(KIND, id)
    return row
  }

  return {
    async createApiKey({ principal, body }) {
      const by = manager(principal)
      const { id: createdBy, project: own } = by
      const { name, project_id: project } = body
      // Also without a project: that would be a key for all of them.
      if (own !== undefined && project !== own) throw fault.forbidden(`a key of a project can only create keys of this project: set project_id to "${own}"`)
      const expiresAt = expiry(body)
      return db.transaction().execute(async (trx) => {
        if (project !== undefined) {
          const active = trx.selectFrom('projects').select('id').where('id', '=', project).where('status', '=', 'active')
          if (!(await active.forKeyShare().executeTakeFirst())) throw fault.projectIdNotFound(project)
        }
        await assertNotLonger(trx, by, body.expires_at === undefined ? 'days_to_expire' : 'expires_at', expiresAt)
        const { id, key } = await insertKey(trx, { name, project: project ?? null, createdBy, expiresAt })
        return { ...record(await found(own, id, {}, trx)), key }
      })
    },

    async listApiKeys({ principal, query }) {
      const { project } = manager(principal)
      return pageOf(await listKeys(db, project, query), query, record)
    },

    async getApiKey({ principal, params, query }) {
      return record(await found(manager(principal).project, params.id, { includeDeleted: query.include_deleted }))
    },

    async updateApiKey({ principal, params: { id }, body: { name } }) {
      const { project } = manager(principal)
      if (!(await changeKey(db, project, id, { name }))) throw fault.notFound(KIND, id)
      return record(await found(project, id, { includeDeleted: true }))
    },

    async deleteApiKey({ principal, params: { id } }) {
      const { id: own, project } = manager(principal)
      if (id === own) throw fault.currentKey()
      if (!(await changeKey(db, project, id, { deleted_at: sql<Date>`now()` }))) throw fault.notFound(KIND, id)
      await rights.taken()
    },

    async rotateApiKey({ principal, params, body: { days_to_expire: days, expire_in_days: graceDays } }) {
      const by = manager(principal)
      const { id: createdBy, project } = by
      const made = await db.transaction().execute(async (trx) => {
        // The project before the key, as who deletes a project does: otherwise each could wait for the other.
        await holdProject(trx, (await found(project, params.id, {}, trx)).project_id)
        const old = await found(project, params.id, { lock: true }, trx)
        const seconds = days === undefined ? old.lifetime_seconds : days * DAY_SECONDS
        const wanted = seconds === null ? null : afterSeconds(seconds)
        // A lifetime that nobody has asked for is shortened to that of the caller's key.
        const end = days === undefined && project !== undefined ? await outlived(trx, createdBy, wanted) : undefined
        const expiresAt = end ? sql<Date>`${end.toISOString()}::timestamptz` : wanted
        if (!end) await assertNotLonger(trx, by, 'days_to_expire', expiresAt)
        if (seconds !== null && graceDays !== undefined && seconds < graceDays * DAY_SECONDS)
          throw fault.field(
            'expire_in_days',
            `${graceDays} is more than the lifetime of the new key in days, ${days ?? Number((seconds / DAY_SECONDS).toFixed(2))}; set a smaller one, or a larger days_to_expire`,
          )
        const { id, key } = await insertKey(trx, { name: old.name, project: old.project_id, createdBy, expiresAt })
        // A default is no reason to refuse.
        await shortenKey(trx, old.id, graceDays === undefined ? Math.min(GRACE_DAYS * DAY_SECONDS, seconds ?? Infinity) : graceDays * DAY_SECONDS)
        return { ...record(await found(project, id, {}, trx)), key }
      })
      await rights.taken()
      return made
    },
  }
}
