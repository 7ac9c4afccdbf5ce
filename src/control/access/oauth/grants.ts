// Grants of clients, and their tokens. Tables have only the SHA-256 of a token. A grant ends with the key or the person that gave it.
import { randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import type { ByKey } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { Tables } from '../../../store/tables.ts'
import { hashOf } from '../keys.ts'
import type { Person } from '../members/person.ts'
import type { Rights } from '../rights.ts'

export const CODE_SECONDS = 60
export const ACCESS_SECONDS = 3600
export const REFRESH_SECONDS = 30 * 86_400
/** Most grants of one key or person, and most access tokens of one grant. The oldest are ended. */
const MOST_GRANTS = 100
const MOST_ACCESS = 10
/** A client that did not get the answer may repeat the request within this time. It is refused, but its grant does not end. */
const AGAIN_SECONDS = 10

const PREFIX = { code: 'cob_oc_', access: 'cob_at_', refresh: 'cob_rt_' } as const
type Kind = keyof typeof PREFIX

export const newToken = (kind: Kind): string => PREFIX[kind] + randomBytes(32).toString('hex')
const ACCESS_FORM = /^cob_at_[0-9a-f]{64}$/

/** Whether a bearer token has the form of an access token. */
export const isAccessToken = (token: string): boolean => ACCESS_FORM.test(token)

/** A permission, and the key or person that gave it. */
export interface Grant {
  id: string
  clientId: string
  keyId: string | null
  personId: string | null
  project: string | null
  looksOnly: boolean
  scope: string[]
}

export type NewGrant = Omit<Grant, 'id'>

interface StoredToken {
  grant: Grant
  redirectUri: string | null
  challenge: string | null
  expiresAt: Date
}

export interface GrantsSettings {
  db: Db
  rights: Rights
  /** A key, or a person, that is still valid. */
  keyOf: (id: string) => Promise<ByKey | undefined>
  personOf: (id: string) => Promise<Person | undefined>
}

/** The key or person that has given a grant. */
export interface Giver {
  kind: 'key' | 'user'
  id: string
}

/** `name`: that of a registered client; null for a built-in one. */
export type Allowed = Pick<Grant, 'id' | 'clientId' | 'project' | 'looksOnly'> & { name: string | null; createdAt: Date; expiresAt: Date }

/** All grants and their tokens. */
export class Grants {
  readonly #given: GrantsSettings
  readonly #good

  constructor(given: GrantsSettings) {
    this.#given = given
    this.#good = given.rights.remember<ByKey | Person>()
  }

  /** Starts a grant, with a code for it. */
  async begin(
    grant: NewGrant,
    { code, redirectUri, challenge, expiresAt }: { code: string; redirectUri: string; challenge: string; expiresAt: Date },
  ): Promise<void> {
    const id = newId()
    const giver: Giver = grant.personId === null ? { kind: 'key', id: grant.keyId! } : { kind: 'user', id: grant.personId }
    const ended = await this.#given.db.transaction().execute(async (tx) => {
      const { numAffectedRows } = await sql`
        delete from oauth_grants where id in (
          select id from oauth_grants where ${sql.ref(columnOf(giver))} = ${giver.id} order by created_at desc, id offset ${MOST_GRANTS - 1})`.execute(tx)
      await tx
        .insertInto('oauth_grants')
        .values({
          id,
          client_id: grant.clientId,
          key_id: grant.keyId,
          person_id: grant.personId,
          project_id: grant.project,
          looks_only: grant.looksOnly,
          scope: grant.scope,
          expires_at: expiresAt,
        })
        .execute()
      await tx
        .insertInto('oauth_tokens')
        .values({ hash: hashOf(code), grant_id: id, kind: 'code', redirect_uri: redirectUri, challenge, expires_at: expiresAt })
        .execute()
      return numAffectedRows
    })
    if (ended) await this.#given.rights.taken()
  }

  /** A valid code or refresh token, which may be used once. Undefined for any other. If the token was used before, its grant ends. */
  async find(kind: 'code' | 'refresh', token: string): Promise<StoredToken | undefined> {
    const row = await this.#tokenRow(kind, token)
    if (!row?.isValid) return undefined
    if (row.used_at !== null) {
      if (kind === 'code' || !row.isJustUsed) await this.#end(row.id)
      return undefined
    }
    const grant = grantOf(row)
    if (!(await this.#accountOf(grant))) return undefined
    return { grant, redirectUri: row.redirect_uri, challenge: row.challenge, expiresAt: row.expires_at }
  }

  /** Marks a code as used without an answer. */
  async useUp(code: string): Promise<void> {
    await use(this.#given.db, code, 'code')
  }

  /**
   * Marks the code or refresh token `by` as used, and adds the tokens of the answer, in one transaction: if the service is killed, it has done both or nothing.
   * False when another request was first, or the grant has ended.
   */
  async exchange(
    { id }: Pick<Grant, 'id'>,
    by: string,
    { access, accessExpiresAt, refresh, refreshExpiresAt }: { access: string; accessExpiresAt: Date; refresh: string; refreshExpiresAt: Date },
  ): Promise<boolean> {
    return this.#given.db.transaction().execute(async (tx) => {
      // Lock the grant before its tokens, in the same order as its deletion.
      const held = await tx.selectFrom('oauth_grants').select('id').where('id', '=', id).forUpdate().executeTakeFirst()
      if (!held || !(await use(tx, by, 'code', 'refresh'))) return false
      await tx.updateTable('oauth_grants').set({ expires_at: refreshExpiresAt }).where('id', '=', id).execute()
      await sql`
        delete from oauth_tokens where grant_id = ${id} and (expires_at < now() or hash in (
          select hash from oauth_tokens where grant_id = ${id} and kind = 'access' order by created_at desc offset ${MOST_ACCESS - 1}))`.execute(tx)
      await tx
        .insertInto('oauth_tokens')
        .values([
          { hash: hashOf(access), grant_id: id, kind: 'access', expires_at: accessExpiresAt },
          { hash: hashOf(refresh), grant_id: id, kind: 'refresh', expires_at: refreshExpiresAt },
        ])
        .execute()
      return true
    })
  }

  /** Ends the grant of a token, if the grant is this client's. */
  async revoke(token: string, clientId: string | undefined): Promise<void> {
    for (const kind of ['access', 'refresh'] as const) {
      const row = await this.#tokenRow(kind, token)
      if (row && (clientId === undefined || row.client_id === clientId)) await this.#end(row.id)
    }
  }

  /** The owner of an access token. @throws 401 */
  async check(token: string): Promise<ByKey | Person> {
    return this.#good.get(hashOf(token).toString('base64'), async () => {
      const row = await this.#tokenRow('access', token)
      const value = row?.isValid ? await this.#accountOf(grantOf(row)) : undefined
      if (!row || !value) throw fault.unauthorized('this access token is not known, was revoked or has expired')
      return { value, leftMs: row.leftMs }
    })
  }

  /** One page of a key's or person's grants whose clients have got tokens, newest first; with one more when there are more. */
  async list(giver: Giver, { offset, limit }: { offset: number; limit: number }): Promise<Allowed[]> {
    const rows = await this.#given.db
      .selectFrom('oauth_grants as g')
      .leftJoin('oauth_clients as c', 'c.id', 'g.client_id')
      .select(['g.id', 'g.client_id', 'c.name', 'g.project_id', 'g.looks_only', 'g.created_at', 'g.expires_at'])
      .where(columnOf(giver), '=', giver.id)
      .where('g.expires_at', '>', sql<Date>`now()`)
      .where(({ exists, selectFrom }) =>
        exists(selectFrom('oauth_tokens as t').select('t.kind').whereRef('t.grant_id', '=', 'g.id').where('t.kind', '=', 'refresh')),
      )
      .orderBy('g.created_at', 'desc')
      .orderBy('g.id')
      .offset(offset)
      .limit(limit + 1)
      .execute()
    return rows.map((row) => ({
      id: row.id,
      clientId: row.client_id,
      name: row.name,
      project: row.project_id,
      looksOnly: row.looks_only,
      createdAt: row.created_at,
      expiresAt: row.expires_at,
    }))
  }

  /** Ends a grant of this key or person, and its tokens. False when they have none with this id. */
  async end(giver: Giver, id: string): Promise<boolean> {
    const { numDeletedRows } = await this.#given.db.deleteFrom('oauth_grants').where('id', '=', id).where(columnOf(giver), '=', giver.id).executeTakeFirst()
    await this.#given.rights.taken()
    return numDeletedRows > 0n
  }

  #tokenRow(kind: Kind, token: string) {
    return this.#given.db
      .selectFrom('oauth_tokens as t')
      .innerJoin('oauth_grants as g', 'g.id', 't.grant_id')
      .select(['t.expires_at', 't.redirect_uri', 't.challenge', 't.used_at'])
      .select(['g.id', 'g.client_id', 'g.key_id', 'g.person_id', 'g.project_id', 'g.looks_only', 'g.scope'])
      .select([sql<boolean>`t.expires_at > now()`.as('isValid'), sql<number>`(extract(epoch from t.expires_at - now()) * 1000)::float8`.as('leftMs')])
      .select(sql<boolean>`t.used_at > now() - make_interval(secs => ${AGAIN_SECONDS})`.as('isJustUsed'))
      .where('t.hash', '=', hashOf(token))
      .where('t.kind', '=', kind)
      .executeTakeFirst()
  }

  async #end(id: string): Promise<void> {
    await this.#given.db.deleteFrom('oauth_grants').where('id', '=', id).execute()
    await this.#given.rights.taken()
  }

  /** The account of a grant, limited by the grant. Undefined when the account is not valid any more. */
  async #accountOf({ id, keyId, personId, project, looksOnly }: Grant): Promise<ByKey | Person | undefined> {
    const via = { kind: 'oauth', id, project: project ?? undefined } as const
    if (personId !== null) {
      const person = await this.#given.personOf(personId)
      return person && { ...person, via, project: project ?? undefined, ...(looksOnly && { most: 'viewer' }) }
    }
    const key = await this.#given.keyOf(keyId!)
    // The key may have another project by now: a grant never allows more than both.
    if (!key || (key.project !== undefined && project !== null && key.project !== project)) return undefined
    return { ...key, via, project: project ?? key.project, ...(looksOnly && { role: 'viewer' }) }
  }
}

const columnOf = ({ kind }: Giver) => (kind === 'user' ? 'person_id' : 'key_id')

/** Marks a token as used. False when it was used before. */
async function use(tx: Db, token: string, ...kinds: Kind[]): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('oauth_tokens')
    .set({ used_at: sql<Date>`now()` })
    .where('hash', '=', hashOf(token))
    .where('kind', 'in', kinds)
    .where('used_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

const grantOf = (row: Omit<Selectable<Tables['oauth_grants']>, 'created_at' | 'expires_at'>): Grant => ({
  id: row.id,
  clientId: row.client_id,
  keyId: row.key_id,
  personId: row.person_id,
  project: row.project_id,
  looksOnly: row.looks_only,
  scope: row.scope,
})
