// The encrypted part of a credential, its values and its TOTP secret: valid values, how they are stored and read, and how changes are applied.
import type { Sealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import { problemOfValues, Values, type CreateCredential, type UpdateCredential } from './contract.ts'
import type { CredentialRow } from './rows.ts'
import { readTotp, type TotpSpec } from './totp.ts'

export interface Secrets {
  values: Record<string, string>
  totp?: TotpSpec
}

export class SealedSecrets {
  readonly #sealerOf: (project: string) => Sealer

  /** `sealerOf`: the sealer of one project's credentials. */
  constructor(sealerOf: (project: string) => Sealer) {
    this.#sealerOf = sealerOf
  }

  /** The columns that store them. */
  columns(project: string, id: string, secrets: Secrets) {
    return {
      value_keys: Object.keys(secrets.values),
      sealed: this.#sealerOf(project).seal(JSON.stringify(secrets), id),
      totp: secrets.totp ? JSON.stringify({ algorithm: secrets.totp.algorithm, digits: secrets.totp.digits, period: secrets.totp.period }) : null,
    }
  }

  /** @throws 503 */
  open({ id, project_id: project, sealed }: CredentialRow): Secrets {
    try {
      return JSON.parse(this.#sealerOf(project).open(sealed, id)) as Secrets
    } catch (cause) {
      throw fault.broken('this credential cannot be read with the keys of the service; delete it and store it again', cause)
    }
  }
}

/** The secrets of a credential after a change. @throws 400 */
export function changed(before: Secrets, { remove_value_keys: removed = [], values = {}, totp_secret: secret, ...totp }: UpdateCredential): Secrets {
  const merged = new Map(Object.entries(before.values))
  for (const key of removed) merged.delete(key)
  for (const [key, value] of Object.entries(values)) merged.set(key, value)
  const after = Object.fromEntries(merged)
  assertFits(after)
  const spec = secret === undefined ? before.totp : secret === '' ? undefined : readTotp(secret, totp, before.totp)
  return { values: after, ...(spec && { totp: spec }) }
}

/** Valid values for the API. @throws 400 */
export function checked(values: Record<string, string>): Record<string, string> {
  // zod's records drop this key silently.
  if (Object.hasOwn(values, '__proto__')) throw fault.field('values.__proto__', 'is not a possible name')
  const read = Values.safeParse(values)
  // The messages contain only keys.
  if (!read.success) throw fault.invalid(read.error.issues.map(({ path, message }) => ({ field: ['values', ...path].join('.'), problem: message })))
  return read.data
}

/** @throws 400 */
export function assertFits(values: Record<string, string>): void {
  const problem = problemOfValues(values)
  if (problem !== undefined) throw fault.field('values', problem)
}

/** @throws 400 for settings of a code without a secret */
export function assertSecretGiven({
  totp_secret: secret,
  ...others
}: Pick<CreateCredential, 'totp_secret' | 'totp_algorithm' | 'totp_digits' | 'totp_period'>): void {
  if (secret) return
  for (const field of ['totp_algorithm', 'totp_digits', 'totp_period'] as const)
    if (others[field] !== undefined) throw fault.field(field, 'must be given together with totp_secret')
}
