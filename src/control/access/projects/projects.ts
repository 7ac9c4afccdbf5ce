// The rules of projects: create, find, rename, archive, delete.
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import { isAccount, type ByAccount, type Page, type Principal } from '../../../http/route.ts'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { written } from '../../service/written.ts'
import type { Project, UpdateProject } from './contract.ts'
import type { Holding } from '../../module.ts'
import { DEFAULT_PROJECT } from './resolve.ts'
import {
  countHeld,
  findProject,
  hasOtherActive,
  insertProject,
  leaveProject,
  listProjects,
  lockProject,
  removeProject,
  someOver,
  updateProject,
  type ProjectRow,
} from './rows.ts'

/**
 * A project may have very many ended objects: they leave it in batches. The last batch of each kind is removed by the statement that deletes the project, so a
 * refused deletion of a small project changes nothing.
 */
const LEAVE_AT_ONCE = 1_000
const LEAVE_AT_LAST = 1_000

interface ProjectsSettings {
  db: Db
  holdings: readonly Holding[]
  /** Called after every change, before its caller gets the answer. */
  onChange: () => Promise<void>
}

export interface Projects {
  /** @throws 409 when the name is taken; 403 */
  create(by: Principal, name: string): Promise<Project>
  list(by: Principal, filter: Asked): Promise<Page<Project>>
  /** @throws 404 */
  get(by: Principal, idOrName: string): Promise<Project>
  /** @throws 404; 409 when the name is taken, and for archiving the default project, or one with running objects; 403 */
  update(by: Principal, idOrName: string, changes: UpdateProject): Promise<Project>
  /**
   * @throws 404; 409 when the project has live objects, and for the default project; 403; the signal's reason. The next call continues where this one stopped
   */
  delete(by: Principal, idOrName: string, signal: AbortSignal): Promise<void>
}

/** The key or person that calls. Tokens of sessions cannot reach this code. */
function accountOf({ by }: Principal): ByAccount {
  if (!isAccount(by)) throw fault.forbidden('projects need an API key')
  return by
}

/** @throws 403 for a key that belongs to a project or an app, and for a person whose role is for a project */
export function assertOrganization(by: Principal): void {
  const { kind, project } = accountOf(by)
  if (project !== undefined)
    throw fault.forbidden(
      kind === 'key' ? 'this needs an API key of the whole organization; this one belongs to a project' : 'this needs a role in all projects',
    )
}

/** The projects that a caller may see; undefined: all. */
function seen(by: Principal): readonly string[] | undefined {
  const account = accountOf(by)
  if (account.project === undefined) return undefined
  return account.kind === 'key' ? [account.project] : account.projects
}

/** A project that the caller may see. @throws 404 */
export async function visible(db: Db, by: Principal, idOrName: string): Promise<ProjectRow> {
  const only = seen(by)
  const row = await findProject(db, idOrName)
  if (!row || (only && !only.includes(row.id))) throw fault.notFound('project', idOrName)
  return row
}

export function makeProjects({ db, holdings, onChange }: ProjectsSettings): Projects {
  const named = <T>(name: string | undefined, work: Promise<T>): Promise<T> => written(work, { table: 'projects', one: 'a project' }, name)

  /** Callers who name no project use the default one. @throws 409 */
  async function assertNotDefault({ id }: ProjectRow, what: 'archived' | 'deleted'): Promise<void> {
    if (id !== DEFAULT_PROJECT) return
    if (!(await hasOtherActive(db, id))) throw fault.lastActiveProject(what)
    throw fault.conflict(`the default project cannot be ${what}: it is used by callers who name none`)
  }

  /** Checks that no object prevents the deletion; for archiving, that nothing runs. @throws 409 */
  async function assertNothing(tx: Db, { id }: ProjectRow, what: 'archived' | 'deleted'): Promise<void> {
    const left: string[] = []
    for (const holding of holdings) {
      if (what === 'archived' && !holding.isAtWork) continue
      const there = await countHeld(tx, id, holding)
      if (there > 0) left.push(`${there} ${holding.called}`)
    }
    if (left.length > 0) throw fault.projectNotEmpty(what, left.join(', '))
  }

  return {
    async create(by, name) {
      assertOrganization(by)
      const row = await named(name, insertProject(db, newId(), name))
      await onChange()
      return present(row)
    },
    async list(by, filter) {
      return pageOf(await listProjects(db, seen(by), filter), filter, present)
    },
    get: async (by, idOrName) => present(await visible(db, by, idOrName)),
    async update(by, idOrName, changes) {
      const before = await visible(db, by, idOrName)
      if (accountOf(by).deployment !== undefined) throw fault.forbidden('the key of an app cannot change its project')
      if (changes.status !== undefined) assertOrganization(by)
      if (changes.status === 'archived') {
        await assertNotDefault(before, 'archived')
        await assertNothing(db, before, 'archived')
      }
      if (changes.name === undefined && changes.status === undefined) return present(before)
      const row = await named(changes.name, updateProject(db, before.id, changes))
      await onChange()
      if (!row) throw fault.notFound('project', idOrName)
      return present(row)
    },
    async delete(by, idOrName, signal) {
      const found = await visible(db, by, idOrName)
      assertOrganization(by)
      await assertNotDefault(found, 'deleted')
      for (const { table, isOver } of holdings)
        if (isOver)
          await inBatches(LEAVE_AT_ONCE, signal, async (limit) => {
            const ids = await someOver(db, found.id, table, isOver, LEAVE_AT_LAST, limit)
            if (ids.length === 0) return 0
            await assertNothing(db, found, 'deleted')
            return leaveProject(db, found.id, table, ids)
          })
      signal.throwIfAborted()
      await db.transaction().execute(async (tx) => {
        // After this lock no object can be created in the project: the insert needs the project's row, and waits for the lock.
        if (!(await lockProject(tx, found.id))) throw fault.notFound('project', idOrName)
        await assertNothing(tx, found, 'deleted')
        await removeProject(tx, found.id)
      })
      await onChange()
    },
  }
}

const present = ({ id, name, status, created_at, updated_at }: ProjectRow): Project => ({
  id,
  name,
  status: status as Project['status'],
  created_at: created_at.toISOString(),
  updated_at: updated_at.toISOString(),
})
