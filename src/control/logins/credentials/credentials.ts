// The rules of credentials: what they may hold, how changes are merged, and who gets their values.
import { isDeepStrictEqual } from 'node:util'
import { newId } from '../../../base/ids.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import { isDuplicate, isProjectGone, type Db } from '../../../store/db.ts'
import { hostOf, MAX_NAME, problemOfValues, Values, type CreateCredential, type Credential, type TotpCode, type UpdateCredential } from './contract.ts'
import {
  changeCredential,
  deleteCredential,
  findCredential,
  insertCredential,
  insertUnlessTaken,
  listCredentials,
  lockCredential,
  type CredentialFilter,
  type CredentialRow,
} from './rows.ts'
import { readTotp, totpCode, type TotpSpec } from './totp.ts'

const KIND = 'credential'

/** The purpose of the sealer of a project's credentials: each project has a key of its own. */
export const purposeOf = (project: string): string => `credentials-${project}`

/** Suffixes that are tried for a name that is taken, before a random one. */
const SUFFIXES = 20

interface CredentialsSettings {
  db: Db
  /** The sealer of one project's credentials. */
  sealerOf: (project: string) => Sealer
  now?: () => Date
}

/** A credential with its values. */
export interface StoredCredential {
  id: string
  name: string
  domain: string
  values: Record<string, string>
  ssoProvider: string | undefined
  totp: TotpSpec | undefined
  /** See {@link versionOf}. */
  version: string
}

/** What is stored sealed. */
interface Secrets {
  values: Record<string, string>
  totp?: TotpSpec
}

export interface Credentials {
  /** @throws 400; 409 when the name is taken */
  create(project: string, wanted: CreateCredential): Promise<Credential>
  list(project: string, filter: CredentialFilter): Promise<Page<Credential>>
  /** @throws 404 */
  get(project: string, idOrName: string): Promise<Credential>
  /** Changes at the same time are all kept. @throws 400, 404, 409; 503 when its values are needed and cannot be read */
  update(project: string, idOrName: string, changes: UpdateCredential): Promise<Credential>
  /** Connections that use it lose it. @throws 404 */
  delete(project: string, idOrName: string): Promise<void>
  /** @throws 400 when it has no TOTP secret; 404; 503 when it cannot be read */
  totpCode(project: string, idOrName: string): Promise<TotpCode>
  /** The id of a credential of the project by name (or id); undefined when there is none. */
  idOf(project: string, idOrName: string): Promise<string | undefined>
  /** With its values: for the login engine only. Undefined when it was deleted. @throws 503 when they cannot be read */
  open(project: string, id: string): Promise<StoredCredential | undefined>
  /**
   * Keeps what a person typed in a login that succeeded: merged into the credential `into`, or, without one or when it was deleted, a new one named `name` (with a
   * suffix when the name is taken) with this id. One that has the id already was made by an earlier try. Returns its id. @throws 400 for values that the API would not
   * take either; 503
   */
  keep(project: string, what: { into: string | undefined; id: string; name: string; domain: string; values: Record<string, string> }): Promise<string>
}

/** Names the credential and its present values: another name when the values or the TOTP secret become others. */
export const versionOf = ({ id, secrets_version: version }: Pick<CredentialRow, 'id' | 'secrets_version'>): string => `${id} ${version}`

const present = (row: CredentialRow): Credential => ({
  id: row.id,
  name: row.name,
  domain: row.domain,
  ...(row.sso_provider !== null && { sso_provider: row.sso_provider }),
  has_values: row.value_keys.length > 0,
  has_totp_secret: row.totp !== null,
  ...(row.totp !== null && { totp_algorithm: row.totp.algorithm, totp_digits: row.totp.digits, totp_period: row.totp.period }),
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
})

const inFull = (row: CredentialRow): Credential => ({ ...present(row), value_keys: row.value_keys })

/** @throws 400 for settings of a code that has no secret */
function assertSecretGiven({ totp_secret: secret, ...others }: Pick<CreateCredential, 'totp_secret' | 'totp_algorithm' | 'totp_digits' | 'totp_period'>): void {
  if (secret) return
  for (const field of ['totp_algorithm', 'totp_digits', 'totp_period'] as const)
    if (others[field] !== undefined) throw fault.field(field, 'must be given together with totp_secret')
}

/** @throws 400 */
function assertFits(values: Record<string, string>): void {
  const problem = problemOfValues(values)
  if (problem !== undefined) throw fault.field('values', problem)
}

export function makeCredentials({ db, sealerOf, now = () => new Date() }: CredentialsSettings): Credentials {
  /** The columns of what is secret. */
  const columns = (project: string, id: string, secrets: Secrets) => ({
    value_keys: Object.keys(secrets.values),
    sealed: sealerOf(project).seal(JSON.stringify(secrets), id),
    totp: secrets.totp ? JSON.stringify({ algorithm: secrets.totp.algorithm, digits: secrets.totp.digits, period: secrets.totp.period }) : null,
  })

  /** @throws 503 */
  function secretsOf({ id, project_id: project, sealed }: CredentialRow): Secrets {
    try {
      return JSON.parse(sealerOf(project).open(sealed, id)) as Secrets
    } catch (cause) {
      throw fault.broken('this credential cannot be read with the keys of the service; delete it and store it again', cause)
    }
  }

  const saved = async <T>(project: string, name: string | undefined, work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      if (isProjectGone(error)) throw fault.projectNotFound(project)
      throw isDuplicate(error, 'credentials_name') ? fault.conflict(`there is a ${KIND} named "${name}" already`) : error
    })

  const withCode = (shown: Credential, totp: TotpSpec | undefined): Credential => {
    if (!totp) return shown
    const { code, expiresAt } = totpCode(totp, now())
    return { ...shown, totp_code: code, totp_code_expires_at: expiresAt.toISOString() }
  }

  async function find(project: string, idOrName: string): Promise<CredentialRow> {
    const row = await findCredential(db, project, idOrName)
    if (!row) throw fault.notFound(KIND, idOrName)
    return row
  }

  /** The secrets of a credential after a change. */
  function changed(before: Secrets, { remove_value_keys: removed = [], values = {}, totp_secret: secret, ...totp }: UpdateCredential): Secrets {
    const merged = new Map(Object.entries(before.values))
    for (const key of removed) merged.delete(key)
    for (const [key, value] of Object.entries(values)) merged.set(key, value)
    const after = Object.fromEntries(merged)
    assertFits(after)
    const spec = secret === undefined ? before.totp : secret === '' ? undefined : readTotp(secret, totp, before.totp)
    return { values: after, ...(spec && { totp: spec }) }
  }

  /** Values as the API takes them. @throws 400 */
  function checked(values: Record<string, string>): Record<string, string> {
    // Maps of zod leave it out without a word.
    if (Object.hasOwn(values, '__proto__')) throw fault.field('values.__proto__', 'is not a possible name')
    const read = Values.safeParse(values)
    // Its messages name keys only.
    if (!read.success) throw fault.invalid(read.error.issues.map(({ path, message }) => ({ field: ['values', ...path].join('.'), problem: message })))
    return read.data
  }

  return {
    async create(project, wanted) {
      const { name, domain, values, sso_provider: sso, totp_secret: secret } = wanted
      assertSecretGiven(wanted)
      assertFits(values)
      const totp = secret ? readTotp(secret, wanted) : undefined
      const id = newId()
      const row = { id, project_id: project, name, domain, sso_provider: sso || null, ...columns(project, id, { values, ...(totp && { totp }) }) }
      return withCode(inFull(await saved(project, name, insertCredential(db, row))), totp)
    },

    async list(project, filter) {
      const rows = await listCredentials(db, project, filter)
      return { items: rows.slice(0, filter.limit).map(present), nextOffset: rows.length > filter.limit ? filter.offset + filter.limit : undefined }
    },

    get: async (project, idOrName) => inFull(await find(project, idOrName)),

    async update(project, idOrName, changes) {
      assertSecretGiven(changes)
      const { name, sso_provider: sso, remove_value_keys: removed, values, totp_secret: secret } = changes
      const isOfSecrets = [removed, values, secret].some((one) => one !== undefined)
      let totp: TotpSpec | undefined
      const work = db.transaction().execute(async (tx) => {
        const row = await lockCredential(tx, project, idOrName)
        if (!row) throw fault.notFound(KIND, idOrName)
        if (Object.values(changes).every((one) => one === undefined)) return row
        const before = isOfSecrets ? secretsOf(row) : undefined
        const secrets = before && changed(before, changes)
        if (secret) totp = secrets?.totp
        return changeCredential(tx, row.id, {
          ...(name !== undefined && { name }),
          ...(sso !== undefined && { sso_provider: sso || null }),
          ...(secrets && columns(project, row.id, secrets)),
          ...(!isDeepStrictEqual(secrets, before) && { secrets_version: row.secrets_version + 1 }),
        })
      })
      return withCode(inFull(await saved(project, name, work)), totp)
    },

    async delete(project, idOrName) {
      if (!(await deleteCredential(db, project, idOrName))) throw fault.notFound(KIND, idOrName)
    },

    async totpCode(project, idOrName) {
      const row = await find(project, idOrName)
      const { totp } = row.totp === null ? {} : secretsOf(row)
      if (!totp) throw fault.field('totp_secret', 'this credential has none, so it has no code; update it with one')
      const { code, expiresAt } = totpCode(totp, now())
      return { code, expires_at: expiresAt.toISOString() }
    },

    idOf: async (project, idOrName) => (await findCredential(db, project, idOrName))?.id,

    async open(project, id) {
      const row = await findCredential(db, project, id)
      if (!row) return undefined
      const { values, totp } = secretsOf(row)
      return { id: row.id, name: row.name, domain: row.domain, values, ssoProvider: row.sso_provider ?? undefined, totp, version: versionOf(row) }
    },

    async keep(project, { into, id, name, domain, values: typed }) {
      const values = checked(typed)
      if (into !== undefined) {
        const kept = await db.transaction().execute(async (tx) => {
          const row = await lockCredential(tx, project, into)
          if (!row) return undefined
          const before = secretsOf(row)
          // A login with what is stored already changes nothing.
          if (Object.entries(values).every(([key, value]) => before.values[key] === value)) return row
          return changeCredential(tx, row.id, { ...columns(project, row.id, changed(before, { values })), secrets_version: row.secrets_version + 1 })
        })
        if (kept) return kept.id
      }
      assertFits(values)
      const row = { id, project_id: project, domain: hostOf(domain) ?? domain, ...columns(project, id, { values }) }
      for (let at = 1; ; at++) {
        const suffix = at === 1 ? '' : at <= SUFFIXES ? `-${at}` : `-${newId()}`
        const free = Array.from(name)
          .slice(0, MAX_NAME - suffix.length)
          .join('')
        const isMade = insertUnlessTaken(db, { ...row, name: free + suffix }).catch(
          (error: unknown) => isDuplicate(error, 'credentials_pkey') || Promise.reject(error),
        )
        if (await saved(project, undefined, isMade)) return id
      }
    },
  }
}

export { totpCode, type TotpSpec } from './totp.ts'
