// Signing in with an identity provider: finds the person, and the roles that the settings give them.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { OidcSettings } from '../../../base/oidc-settings.ts'
import type { Role } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { findPerson, greater, type Person } from './person.ts'
import { findInvited, lockRoles, setRole } from './rows.ts'

export interface Newcomer {
  issuer: string
  subject: string
  email: string | undefined
  isEmailVerified: boolean
  name: string | undefined
  /** The values of the claim with roles. */
  roles: readonly string[]
}

type Rules = Pick<OidcSettings, 'domains' | 'roles' | 'defaultRole' | 'firstOwner'>

/** The reason why a person is not admitted, as a text for that person. */
export interface NotAdmitted {
  reason: string
}

/** The person of a sign-in, with updated roles. Nothing is stored of a person who is not admitted. */
export async function admit(db: Db, rules: Rules, newcomer: Newcomer): Promise<Person | NotAdmitted> {
  const email = newcomer.isEmailVerified ? newcomer.email?.toLowerCase() : undefined
  if (rules.domains.length > 0 && !(email !== undefined && rules.domains.includes(email.slice(email.lastIndexOf('@') + 1))))
    return {
      reason: newcomer.isEmailVerified ? 'Addresses of your domain may not sign in here.' : 'The identity provider does not say that your address is verified.',
    }
  return db
    .transaction()
    .execute(async (tx) => {
      await lockRoles(tx)
      const id = await findOrMake(tx, newcomer, email)
      await applyRules(tx, rules, id, newcomer.roles, email)
      const person = await findPerson(tx, id)
      if (!person) throw new NoRole()
      return person
    })
    .catch((error: unknown) => {
      if (error instanceof NoRole)
        return { reason: `You have no role here yet. Ask an owner to invite ${newcomer.email ?? `the subject ${newcomer.subject}`}.` }
      throw error
    })
}

/** Thrown to roll back the transaction. */
class NoRole extends Error {}

/** The person with this subject, including the invitations of their verified address. */
async function findOrMake(tx: Db, { issuer, subject, name, ...rest }: Newcomer, email: string | undefined): Promise<string> {
  const known = await tx.selectFrom('people').select('id').where('issuer', '=', issuer).where('subject', '=', subject).forUpdate().executeTakeFirst()
  const invited = email === undefined ? undefined : await findInvited(tx, email)
  const id = known?.id ?? invited ?? newId()
  const facts = { issuer, subject, name: name ?? null, email: rest.email ?? null, signed_in_at: sql<Date>`now()` }
  if (known && invited !== undefined) {
    const given = await tx.selectFrom('memberships').select(['project_id', 'role']).where('person_id', 'in', [known.id, invited]).execute()
    await tx.deleteFrom('people').where('id', '=', invited).execute()
    for (const project of new Set(given.map(({ project_id }) => project_id))) {
      const roles = given.filter(({ project_id }) => project_id === project).map(({ role }) => role as Role)
      await setRole(
        tx,
        known.id,
        project,
        roles.reduce((one, other) => greater(one, other)!),
      )
    }
  }
  if (known || invited !== undefined) await tx.updateTable('people').set(facts).where('id', '=', id).execute()
  else
    await tx
      .insertInto('people')
      .values({ id, ...facts, invited_by: null })
      .execute()
  return id
}

/** A role that an owner has set by hand stays. A role from the settings follows them at each sign-in. */
async function applyRules(tx: Db, { roles, defaultRole, firstOwner }: Rules, id: string, claimed: readonly string[], email: string | undefined): Promise<void> {
  const mapped = claimed.map((value) => roles.get(value)).reduce<Role | undefined>((one, other) => greater(one, other), undefined) ?? defaultRole
  const now = await tx.selectFrom('memberships').select(['role', 'by_settings']).where('person_id', '=', id).where('project_id', 'is', null).executeTakeFirst()
  if (firstOwner !== undefined && email === firstOwner && now?.role !== 'owner') {
    const owner = await tx.selectFrom('memberships').select('role').where('project_id', 'is', null).where('role', '=', 'owner').limit(1).executeTakeFirst()
    // Set it as by hand, so that it stays when the settings no longer give it.
    if (!owner) return setRole(tx, id, null, 'owner')
  }
  if (now && !now.by_settings) return
  if (mapped !== undefined) await setRole(tx, id, null, mapped, true)
  else if (now) await tx.deleteFrom('memberships').where('person_id', '=', id).where('project_id', 'is', null).execute()
}
