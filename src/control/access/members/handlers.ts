// The rules of the Members group: who may give which role to whom.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import { isAccount, known, type ByAccount, type Handlers, type Principal } from '../../../http/route.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Member, members as contract } from './contract.ts'
import type { Rights } from '../rights.ts'
import { findPerson, greater } from './person.ts'
import { findInvited, findMember, hasRole, listPeople, lockRoles, setRole, type Within } from './rows.ts'

const KIND = 'member'

/** Who manages members, and the only project for which. @throws 403 for the code of an app */
function manager(principal: Principal | undefined): { by: ByAccount; within: Within } {
  const { by } = known(principal)
  if (!isAccount(by) || by.deployment !== undefined) throw fault.forbidden("an app's key cannot be used to manage members")
  return { by, within: by.project }
}

/** The project that a role is for. @throws 403 */
function projectOf(within: Within, named: string | undefined): string | null {
  // Also without a project: that would be a role in all of them.
  if (within !== undefined && named !== within) throw fault.forbidden(`you manage the members of one project only: set project_id to "${within}"`)
  return named ?? null
}

export function memberHandlers(db: Db, rights: Rights, issuer: string | undefined): Handlers<typeof contract> {
  const found = async (within: Within, id: string, from: Db = db): Promise<Member> => {
    const member = await findMember(from, within, id)
    if (!member) throw fault.notFound(KIND, id)
    return member
  }

  /** @throws 404 */
  async function holdProject(tx: Db, id: string | null): Promise<void> {
    if (id === null) return
    const row = await tx.selectFrom('projects').select('id').where('id', '=', id).forKeyShare().executeTakeFirst()
    if (!row) throw fault.projectIdNotFound(id)
  }

  /**
   * A person must not lock themselves out by mistake. So the one who acts stays an owner, and there is always one; unless another owner has just taken the role
   * from them. @throws 403, 409
   */
  async function assertMayChange(tx: Db, by: ByAccount, within: Within, member: Member): Promise<void> {
    if (by.kind !== 'user') return
    if (by.id === member.id) throw fault.conflict('you cannot change or remove your own role; ask another owner')
    const person = await findPerson(tx, by.id)
    if (greater(person?.everywhere, within === undefined ? undefined : person?.roles.get(within)) !== 'owner')
      throw fault.forbidden('you are no owner any more')
  }

  return {
    async inviteMember({ principal, body: { email, subject, name, role, project_id: named } }) {
      const { by, within } = manager(principal)
      const project = projectOf(within, named)
      if (subject !== undefined && issuer === undefined) throw fault.field('subject', 'needs an identity provider: set COB_OIDC_ISSUER')
      return db.transaction().execute(async (tx) => {
        await holdProject(tx, project)
        const invited = email === undefined ? undefined : await findInvited(tx, email)
        const taken = fault.conflict(`${email ?? subject} is a member already; change the role of that member`)
        if (invited !== undefined && (await hasRole(tx, invited, project))) throw taken
        const id = invited ?? newId()
        if (invited === undefined)
          await tx
            .insertInto('people')
            .values({
              id,
              email: email ?? null,
              name: name ?? null,
              subject: subject ?? null,
              issuer: subject === undefined ? null : issuer!,
              invited_by: by.id,
            })
            .execute()
            .catch((error: unknown) => {
              throw isDuplicate(error, 'people_invited') || isDuplicate(error, 'people_subject') ? taken : error
            })
        await setRole(tx, id, project, role)
        return found(within, id, tx)
      })
    },
    async listMembers({ principal, query }) {
      return pageOf(await listPeople(db, manager(principal).within, query), query, (member) => member)
    },
    getMember: ({ principal, params: { id } }) => found(manager(principal).within, id),
    async updateMember({ principal, params: { id }, body: { role, project_id: named } }) {
      const { by, within } = manager(principal)
      const changed = await db.transaction().execute(async (tx) => {
        await lockRoles(tx)
        const member = await found(within, id, tx)
        const project = projectOf(within, named)
        await holdProject(tx, project)
        await assertMayChange(tx, by, within, member)
        await setRole(tx, id, project, role)
        return found(within, id, tx)
      })
      await rights.taken()
      return changed
    },
    async removeMember({ principal, params: { id }, query: { project_id: named } }) {
      const { by, within } = manager(principal)
      const project = within === undefined && named === undefined ? null : projectOf(within, named ?? within)
      await db.transaction().execute(async (tx) => {
        await lockRoles(tx)
        await assertMayChange(tx, by, within, await found(within, id, tx))
        if (project === null) return void (await tx.deleteFrom('people').where('id', '=', id).execute())
        const { numDeletedRows } = await tx.deleteFrom('memberships').where('person_id', '=', id).where('project_id', '=', project).executeTakeFirst()
        if (numDeletedRows === 0n) throw fault.notFound(KIND, id)
        // Without any role nobody could see them any more, to remove them.
        await sql`delete from people p where id = ${id} and not exists (select from memberships m where m.person_id = p.id)`.execute(tx)
      })
      await rights.taken()
    },
  }
}
