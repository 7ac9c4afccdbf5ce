// The values of a form, as the agent types them: from the credential, a person, or the secret of one-time codes. Nothing in here is kept.
import type { Action } from '../../../agent/login/contract.ts'
import { itemVersion } from '../reauth.ts'
import type { Fill } from './decision.ts'
import type { Memory } from './memory.ts'
import type { SecretResolver, StoredValues, Totp } from './secrets.ts'
import { FlowFailure, type Connection, type Tools } from './work.ts'

/** A code that ends sooner may have ended when the site checks it. */
const LEAST_CODE_MS = 4000
/** Clocks of sites are not exactly ours. */
const AFTER_MS = 300

/** The credential of a connection, read now. @throws FlowFailure when it cannot be read */
export async function storedValues(connection: Connection, tools: Tools, signal: AbortSignal): Promise<StoredValues | undefined> {
  const { project_id: project, credential_id: credential, provider_id: provider, provider_path: path, domain } = connection
  if (credential !== null) return tools.credentials.open(project, credential)
  if (provider === null) return undefined
  try {
    const { values, totp } = await tools.providers.resolve(provider, path === null ? { domain } : { path }, signal)
    return { version: itemVersion(provider, path), values, ssoProvider: undefined, totp: totp === undefined ? undefined : readTotp(tools, totp) }
  } catch (error) {
    signal.throwIfAborted()
    const { code, message } = error as { code?: unknown; message: string }
    if (code === 'provider_unavailable' || code === 'credential_not_found') throw new FlowFailure(code, message)
    throw error
  }
}

function readTotp({ totp }: Pick<Tools, 'totp'>, text: string): Totp {
  try {
    return totp.read(text)
  } catch {
    // Its own error may quote the secret's address.
    throw new FlowFailure('provider_unavailable', 'the TOTP secret in the item of the provider cannot be read')
  }
}

/** A code of the secret that no earlier try of this flow has used and that does not end at once. Notes its period in the memory, before it is typed. */
export async function freshCode(spec: Totp, memory: Memory, { totp, clock }: Pick<Tools, 'totp' | 'clock'>, signal: AbortSignal): Promise<string> {
  const periodAt = (now: number) => Math.floor(now / (spec.period * 1000))
  for (;;) {
    const now = clock.now()
    const { code, expiresAt } = totp.code(spec, new Date(now))
    const left = expiresAt.getTime() - now
    if (periodAt(now) > memory.totp.period && left >= LEAST_CODE_MS) {
      memory.totp.period = periodAt(now)
      return code
    }
    await clock.sleep(Math.max(1, left) + AFTER_MS, signal)
  }
}

/** The version of the stored values that are sent with these: of the password last, as the site refuses that. */
export function versionSent(
  fills: readonly Fill[],
  { version }: Pick<SecretResolver, 'version'>,
  { sentVersion }: Pick<Memory, 'sentVersion'>,
): string | undefined {
  if (fills.some(({ source, field }) => source === 'typed' && field.role === 'password')) return undefined
  return fills.some(({ source }) => source === 'stored' || source === 'totp') ? version : sentVersion
}

const IS_YES = /^(true|yes|on|1|checked)$/i

/** What types the values into the fields; the key of a select whose options have no such value. */
export function actionsOf(fills: readonly Fill[], secrets: SecretResolver, code: string | undefined): { actions: Action[] } | { unfit: string } {
  const actions: Action[] = []
  for (const { field, source } of fills) {
    const { key, role, ref, boxes, options } = field
    const value = source === 'totp' ? code : secrets.valueOf(key, role, source)
    if (value === undefined) return { unfit: key }
    if (role === 'checkbox') actions.push({ kind: 'check', ref, checked: IS_YES.test(value) })
    else if (options !== undefined || role === 'select') {
      const wanted = value.trim().toLowerCase()
      const option = (options ?? []).findIndex((label) => label.trim().toLowerCase() === wanted)
      if (option === -1) return { unfit: key }
      actions.push({ kind: 'select', ref, option })
    } else actions.push({ kind: 'fill', ref, value, ...(boxes && boxes.length > 0 && { boxes }) })
  }
  return { actions }
}
