// The rules of API keys: which caller may make, see, rotate and end which keys, and how long they live.
import { sql } from 'kysely'
import { fault } from '../../../http/fault.ts'
import { isAccount, type Page, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Rights } from '../rights.ts'
import { GRACE_DAYS, MAX_DAYS, type ApiKey, type Create, type CreatedApiKey, type List, type Rotate } from './contract.ts'
import {
  afterSeconds,
  changeKey,
  endBefore,
  findKey,
  holdActiveProject,
  holdProject,
  insertKey,
  listKeys,
  record,
  shortenKey,
  type KeyRow,
  type NewKey,
  type Within,
} from './rows.ts'

const DAY_SECONDS = 86_400
const KIND = 'API key'

/** The key or person that manages keys, and its project if it manages only the keys of that one. */
interface Manager {
  id: string
  project: Within
}

/** @throws 403 for the code of an app */
function managerOf({ by }: Principal): Manager {
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to manage API keys")
  return { id: by.id, project: by.project }
}

/** The expiry time of a new key. @throws 400 */
function expiry({ days_to_expire: days, expires_at: at }: Pick<Create, 'days_to_expire' | 'expires_at'>): NewKey['expiresAt'] {
  if (days !== undefined) return afterSeconds(days * DAY_SECONDS)
  if (at === undefined) return null
  const seconds = (Date.parse(at) - Date.now()) / 1000
  if (!(seconds > 0)) throw fault.field('expires_at', 'must be in the future')
  if (seconds > MAX_DAYS * DAY_SECONDS) throw fault.field('expires_at', `must be within ${MAX_DAYS} days`)
  return sql<Date>`${new Date(at).toISOString()}::timestamptz`
}

export class ApiKeys {
  readonly #db: Db
  readonly #rights: Rights

  constructor(db: Db, rights: Rights) {
    this.#db = db
    this.#rights = rights
  }

  /** @throws 400, 403; 404 for a project that is not active */
  async create(by: Principal, wanted: Create): Promise<CreatedApiKey> {
    const manager = managerOf(by)
    const { name, project_id: project } = wanted
    // A key without a project is refused, too: it would be valid for all projects.
    if (manager.project !== undefined && project !== manager.project)
      throw fault.forbidden(`a key of a project can only create keys of this project: set project_id to "${manager.project}"`)
    const expiresAt = expiry(wanted)
    return this.#db.transaction().execute(async (tx) => {
      if (project !== undefined && !(await holdActiveProject(tx, project))) throw fault.projectIdNotFound(project)
      await assertNotLonger(tx, manager, wanted.expires_at === undefined ? 'days_to_expire' : 'expires_at', expiresAt)
      return insert(tx, manager, { name, project: project ?? null, expiresAt })
    })
  }

  async list(by: Principal, filter: List): Promise<Page<ApiKey>> {
    return pageOf(await listKeys(this.#db, managerOf(by).project, filter), filter, record)
  }

  /** @throws 404 */
  async get(by: Principal, id: string, includeDeleted: boolean): Promise<ApiKey> {
    return record(await find(this.#db, managerOf(by).project, id, { includeDeleted }))
  }

  /** @throws 404 */
  async rename(by: Principal, id: string, name: string): Promise<ApiKey> {
    const { project } = managerOf(by)
    if (!(await changeKey(this.#db, project, id, { name }))) throw fault.notFound(KIND, id)
    return record(await find(this.#db, project, id, { includeDeleted: true }))
  }

  /** @throws 400 for the caller's own key; 404 */
  async delete(by: Principal, id: string): Promise<void> {
    const manager = managerOf(by)
    if (id === manager.id) throw fault.currentKey()
    if (!(await changeKey(this.#db, manager.project, id, { deleted_at: sql<Date>`now()` }))) throw fault.notFound(KIND, id)
    await this.#rights.taken()
  }

  /** Makes a new key in place of an old one, which expires after a while. @throws 400, 404 */
  async rotate(by: Principal, id: string, { days_to_expire: days, expire_in_days: graceDays }: Rotate): Promise<CreatedApiKey> {
    const manager = managerOf(by)
    const made = await this.#db.transaction().execute(async (tx) => {
      // Lock the project before the key, in the same order as the deletion of a project. With another order there could be a deadlock.
      await holdProject(tx, (await find(tx, manager.project, id)).project_id)
      const old = await find(tx, manager.project, id, { lock: true })
      const seconds = days === undefined ? old.lifetime_seconds : days * DAY_SECONDS
      const expiresAt = await rotatedExpiry(tx, manager, days, seconds)
      if (seconds !== null && graceDays !== undefined && seconds < graceDays * DAY_SECONDS)
        throw fault.field(
          'expire_in_days',
          `${graceDays} is more than the lifetime of the new key in days, ${days ?? Number((seconds / DAY_SECONDS).toFixed(2))}; set a smaller one, or a larger days_to_expire`,
        )
      // The default is shortened to the lifetime of the new key. Only a number that the caller has given can be refused.
      await shortenKey(tx, old.id, graceDays === undefined ? Math.min(GRACE_DAYS * DAY_SECONDS, seconds ?? Infinity) : graceDays * DAY_SECONDS)
      return insert(tx, manager, { name: old.name, project: old.project_id, expiresAt })
    })
    await this.#rights.taken()
    return made
  }
}

/** @throws 404 */
async function find(db: Db, within: Within, id: string, options: Parameters<typeof findKey>[3] = {}): Promise<KeyRow> {
  const row = await findKey(db, within, id, options)
  if (!row) throw fault.notFound(KIND, id)
  return row
}

async function insert(tx: Db, manager: Manager, wanted: Omit<NewKey, 'createdBy'>): Promise<CreatedApiKey> {
  const { id, key } = await insertKey(tx, { ...wanted, createdBy: manager.id })
  return { ...record(await find(tx, manager.project, id)), key }
}

/**
 * Refuses a key that would live longer than the project's key that makes it: otherwise that key's expiry would have no effect. A key for all projects may give
 * any lifetime. @throws 400
 */
async function assertNotLonger(tx: Db, manager: Manager, field: 'days_to_expire' | 'expires_at', expiresAt: NewKey['expiresAt']): Promise<void> {
  const end = manager.project === undefined ? undefined : await endBefore(tx, manager.id, expiresAt)
  if (!end) return
  const what = expiresAt ? 'the new key would outlive' : 'must be given: a key without an end would outlive'
  throw fault.field(field, `${what} the key that makes it, which expires at ${end.toISOString()}; a key for all projects may make one that lives longer`)
}

/**
 * The expiry time of the new key. If the lifetime is copied from the old key, it is shortened to that of the caller's key; a lifetime in the request is refused
 * instead. @throws 400
 */
async function rotatedExpiry(tx: Db, manager: Manager, days: number | undefined, seconds: number | null): Promise<NewKey['expiresAt']> {
  const wanted = seconds === null ? null : afterSeconds(seconds)
  if (days !== undefined) {
    await assertNotLonger(tx, manager, 'days_to_expire', wanted)
    return wanted
  }
  const end = manager.project === undefined ? undefined : await endBefore(tx, manager.id, wanted)
  return end ? sql<Date>`${end.toISOString()}::timestamptz` : wanted
}
