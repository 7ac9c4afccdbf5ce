// The rules of credentials: create, list, change and delete; and for logins, read one with its values and store typed values.
import { isDeepStrictEqual } from 'node:util'
import { newId } from '../../../base/ids.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import { written } from '../../service/written.ts'
import { hostOf, MAX_NAME, type CreateCredential, type Credential, type TotpCode, type UpdateCredential } from './contract.ts'
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
import { assertFits, assertSecretGiven, changed, checked, SealedSecrets } from './secrets.ts'
import { readTotp, totpCode, type TotpSpec } from './totp.ts'

const KIND = 'credential'

/** The purpose of the sealer of a project's credentials: each project has its own key. */
export const purposeOf = (project: string): string => `credentials-${project}`

/** Number of suffixes that are tried for a name that is taken, before a random one. */
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

/** Identifies the credential and its present values: it changes when the values or the TOTP secret change. */
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

/** The values that a person has typed in a successful login. */
interface Typed {
  /** The credential that gets the values. If absent or deleted, a new one gets them. */
  into: string | undefined
  /** The id of the new one. If a credential already has it, an earlier attempt has created it. */
  id: string
  /** The name of the new one; it gets a suffix if the name is taken. */
  name: string
  domain: string
  values: Record<string, string>
}

export class Credentials {
  readonly #db: Db
  readonly #secrets: SealedSecrets
  readonly #now: () => Date

  constructor({ db, sealerOf, now = () => new Date() }: CredentialsSettings) {
    this.#db = db
    this.#secrets = new SealedSecrets(sealerOf)
    this.#now = now
  }

  /** @throws 400; 409 when the name is taken */
  async create(project: string, wanted: CreateCredential): Promise<Credential> {
    const { name, domain, values, sso_provider: sso, totp_secret: secret } = wanted
    assertSecretGiven(wanted)
    assertFits(values)
    const totp = secret ? readTotp(secret, wanted) : undefined
    const id = newId()
    const columns = this.#secrets.columns(project, id, { values, ...(totp && { totp }) })
    const row = { id, project_id: project, name, domain, sso_provider: sso || null, ...columns }
    return this.#withCode(inFull(await saved(project, name, insertCredential(this.#db, row))), totp)
  }

  async list(project: string, filter: CredentialFilter): Promise<Page<Credential>> {
    return pageOf(await listCredentials(this.#db, project, filter), filter, present)
  }

  /** @throws 404 */
  async get(project: string, idOrName: string): Promise<Credential> {
    return inFull(await this.#find(project, idOrName))
  }

  /** Concurrent changes are all kept. @throws 400, 404, 409; 503 when its values are needed and cannot be decrypted */
  async update(project: string, idOrName: string, changes: UpdateCredential): Promise<Credential> {
    assertSecretGiven(changes)
    const { name, sso_provider: sso, remove_value_keys: removed, values, totp_secret: secret } = changes
    const isOfSecrets = [removed, values, secret].some((one) => one !== undefined)
    let totp: TotpSpec | undefined
    const work = this.#db.transaction().execute(async (tx) => {
      const row = await lockCredential(tx, project, idOrName)
      if (!row) throw fault.notFound(KIND, idOrName)
      if (Object.values(changes).every((one) => one === undefined)) return row
      const before = isOfSecrets ? this.#secrets.open(row) : undefined
      const secrets = before && changed(before, changes)
      if (secret) totp = secrets?.totp
      return changeCredential(tx, row.id, {
        ...(name !== undefined && { name }),
        ...(sso !== undefined && { sso_provider: sso || null }),
        ...(secrets && this.#secrets.columns(project, row.id, secrets)),
        ...(!isDeepStrictEqual(secrets, before) && { secrets_version: row.secrets_version + 1 }),
      })
    })
    return this.#withCode(inFull(await saved(project, name, work)), totp)
  }

  /** Removes the reference of connections that use it. @throws 404 */
  async delete(project: string, idOrName: string): Promise<void> {
    if (!(await deleteCredential(this.#db, project, idOrName))) throw fault.notFound(KIND, idOrName)
  }

  /** @throws 400 when it has no TOTP secret; 404; 503 when it cannot be read */
  async totpCode(project: string, idOrName: string): Promise<TotpCode> {
    const row = await this.#find(project, idOrName)
    const { totp } = row.totp === null ? {} : this.#secrets.open(row)
    if (!totp) throw fault.field('totp_secret', 'this credential has none, so it has no code; update it with one')
    const { code, expiresAt } = totpCode(totp, this.#now())
    return { code, expires_at: expiresAt.toISOString() }
  }

  /** The id of a credential of the project by name (or id); undefined when there is none. */
  async idOf(project: string, idOrName: string): Promise<string | undefined> {
    return (await findCredential(this.#db, project, idOrName))?.id
  }

  /** A credential with its values, for the login engine only. Undefined when it was deleted. @throws 503 when they cannot be decrypted */
  async open(project: string, id: string): Promise<StoredCredential | undefined> {
    const row = await findCredential(this.#db, project, id)
    if (!row) return undefined
    const { values, totp } = this.#secrets.open(row)
    return { id: row.id, name: row.name, domain: row.domain, values, ssoProvider: row.sso_provider ?? undefined, totp, version: versionOf(row) }
  }

  /** Stores typed values, for the login engine only. @returns the id of the credential that has them. @throws 400 for values that the API would refuse; 503 */
  async keep(project: string, { into, values: typed, ...wanted }: Typed): Promise<string> {
    const values = checked(typed)
    const merged = into === undefined ? undefined : await this.#merge(project, into, values)
    return merged ?? this.#insertNamed(project, { ...wanted, values })
  }

  /** Undefined when the credential was deleted. */
  #merge(project: string, into: string, values: Record<string, string>): Promise<string | undefined> {
    return this.#db.transaction().execute(async (tx) => {
      const row = await lockCredential(tx, project, into)
      if (!row) return undefined
      const before = this.#secrets.open(row)
      // If the typed values are already stored, nothing changes.
      if (Object.entries(values).every(([key, value]) => before.values[key] === value)) return row.id
      const columns = this.#secrets.columns(project, row.id, changed(before, { values }))
      return (await changeCredential(tx, row.id, { ...columns, secrets_version: row.secrets_version + 1 })).id
    })
  }

  /** Inserts a credential under the first free name. */
  async #insertNamed(project: string, { id, name, domain, values }: Omit<Typed, 'into'>): Promise<string> {
    assertFits(values)
    const row = { id, project_id: project, domain: hostOf(domain) ?? domain, ...this.#secrets.columns(project, id, { values }) }
    for (let at = 1; ; at++) {
      const suffix = at === 1 ? '' : at <= SUFFIXES ? `-${at}` : `-${newId()}`
      const free = Array.from(name)
        .slice(0, MAX_NAME - suffix.length)
        .join('')
      const isMade = insertUnlessTaken(this.#db, { ...row, name: free + suffix }).catch(
        (error: unknown) => isDuplicate(error, 'credentials_pkey') || Promise.reject(error),
      )
      if (await saved(project, undefined, isMade)) return id
    }
  }

  async #find(project: string, idOrName: string): Promise<CredentialRow> {
    const row = await findCredential(this.#db, project, idOrName)
    if (!row) throw fault.notFound(KIND, idOrName)
    return row
  }

  #withCode(shown: Credential, totp: TotpSpec | undefined): Credential {
    if (!totp) return shown
    const { code, expiresAt } = totpCode(totp, this.#now())
    return { ...shown, totp_code: code, totp_code_expires_at: expiresAt.toISOString() }
  }
}

const saved = <T>(project: string, name: string | undefined, work: Promise<T>): Promise<T> =>
  written(work, { table: 'credentials', one: 'a credential' }, name, project)
