// The rules of members: who may give which role to whom, and who may remove them.
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import { isAccount, type ByAccount, type Page, type Principal, type Role } from '../../../http/route.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Rights } from '../rights.ts'
import type { Invite, Member } from './contract.ts'
import { findPerson, greater } from './person.ts'
import {
  findInvited,
  findMember,
  hasRole,
  holdProject,
  insertInvited,
  listPeople,
  lockRoles,
  removePerson,
  removeRole,
  setRole,
  type PeopleFilter,
  type Within,
} from './rows.ts'

const KIND = 'member'

interface MembersSettings {
  db: Db
  rights: Rights
  /** The identity provider of this service; undefined without one. */
  issuer: string | undefined
}

/** The caller that manages members, and its project if it manages only the members of that one. @throws 403 for the code of an app */
function managerOf({ by }: Principal): { by: ByAccount; within: Within } {
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to manage members")
  return { by, within: by.project }
}

/** The project of a role; null: all. @throws 403 */
function projectOf(within: Within, named: string | undefined): string | null {
  // A role without a project is refused, too: it would be valid in all of them.
  if (within !== undefined && named !== within) throw fault.forbidden(`you manage the members of one project only: set project_id to "${within}"`)
  return named ?? null
}

export class Members {
  readonly #db: Db
  readonly #rights: Rights
  readonly #issuer: string | undefined

  constructor({ db, rights, issuer }: MembersSettings) {
    this.#db = db
    this.#rights = rights
    this.#issuer = issuer
  }

  /** @throws 400 for a subject without an identity provider; 403; 404 for a project that does not exist; 409 for a member of the project */
  async invite(principal: Principal, { email, subject, name, role, project_id: named }: Invite): Promise<Member> {
    const { by, within } = managerOf(principal)
    const project = projectOf(within, named)
    if (subject !== undefined && this.#issuer === undefined) throw fault.field('subject', 'needs an identity provider: set COB_OIDC_ISSUER')
    return this.#db.transaction().execute(async (tx) => {
      await assertProject(tx, project)
      const invited = email === undefined ? undefined : await findInvited(tx, email)
      const taken = fault.conflict(`${email ?? subject} is a member already; change the role of that member`)
      if (invited !== undefined && (await hasRole(tx, invited, project))) throw taken
      const id = invited ?? newId()
      if (invited === undefined)
        await insertInvited(tx, { id, email, name, subject, issuer: subject === undefined ? undefined : this.#issuer, invitedBy: by.id }).catch(
          (error: unknown) => {
            throw isDuplicate(error, 'people_invited') || isDuplicate(error, 'people_subject') ? taken : error
          },
        )
      await setRole(tx, id, project, role)
      return find(tx, within, id)
    })
  }

  async list(principal: Principal, filter: PeopleFilter): Promise<Page<Member>> {
    return pageOf(await listPeople(this.#db, managerOf(principal).within, filter), filter, (member) => member)
  }

  /** @throws 404 */
  get(principal: Principal, id: string): Promise<Member> {
    return find(this.#db, managerOf(principal).within, id)
  }

  /** Sets the role of a member in a project, or in all. @throws 403, 404; 409 for the caller's own role */
  async setRole(principal: Principal, id: string, role: Role, named: string | undefined): Promise<Member> {
    const { by, within } = managerOf(principal)
    const changed = await this.#db.transaction().execute(async (tx) => {
      await lockRoles(tx)
      const member = await find(tx, within, id)
      const project = projectOf(within, named)
      await assertProject(tx, project)
      await assertMayChange(tx, by, within, member)
      await setRole(tx, id, project, role)
      return find(tx, within, id)
    })
    await this.#rights.taken()
    return changed
  }

  /** Removes a member from a project, or completely. @throws 403, 404; 409 for the caller itself */
  async remove(principal: Principal, id: string, named: string | undefined): Promise<void> {
    const { by, within } = managerOf(principal)
    const project = within === undefined && named === undefined ? null : projectOf(within, named ?? within)
    await this.#db.transaction().execute(async (tx) => {
      await lockRoles(tx)
      await assertMayChange(tx, by, within, await find(tx, within, id))
      if (project === null) await removePerson(tx, id)
      else if (!(await removeRole(tx, id, project))) throw fault.notFound(KIND, id)
    })
    await this.#rights.taken()
  }
}

/** @throws 404 */
async function find(db: Db, within: Within, id: string): Promise<Member> {
  const member = await findMember(db, within, id)
  if (!member) throw fault.notFound(KIND, id)
  return member
}

/** Checks that the project exists, and prevents its deletion until the transaction ends. @throws 404 */
async function assertProject(tx: Db, project: string | null): Promise<void> {
  if (project !== null && !(await holdProject(tx, project))) throw fault.projectIdNotFound(project)
}

/**
 * Nobody changes their own role. So nobody loses access by mistake, and there is always an owner. If two owners remove each other's role at the same time, the
 * second one is refused. @throws 403, 409
 */
async function assertMayChange(tx: Db, by: ByAccount, within: Within, member: Member): Promise<void> {
  if (by.kind !== 'user') return
  if (by.id === member.id) throw fault.conflict('you cannot change or remove your own role; ask another owner')
  const person = await findPerson(tx, by.id)
  if (greater(person?.everywhere, within === undefined ? undefined : person?.roles.get(within)) !== 'owner') throw fault.forbidden('you are no owner any more')
}
