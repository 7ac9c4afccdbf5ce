// The type `keepass`: a KDBX 4 file of KeePass, KeePassXC and others.
import { z } from 'zod'
import { Slots } from '../../../../base/slots.ts'
import { abortable } from '../../../../base/wait.ts'
import { BackendProblem, type Backend, type Item, type ItemValues, type Vault } from './backend.ts'
import type { CredentialFiles } from './files.ts'
import { openKdbx } from './kdbx.ts'
import { compositeKey } from './kdbx-key.ts'
import { readEntries, type Entry } from './keepass-xml.ts'
import { base32, otpauth, readOtp } from './otpauth.ts'
import { FilePath, jsonToken } from './token.ts'

const MAX_FILE = 32 * 1024 * 1024
const MAX_KEY_FILE = 1024 * 1024

const Token = z
  .strictObject({ file: FilePath, password: z.string().optional(), keyfile: FilePath.optional() })
  .refine(({ password, keyfile }) => password !== undefined || keyfile !== undefined, 'must have a password, a keyfile, or both')

/** Of all providers: each takes its memory, and a core for some time. */
const opening = new Slots(1)

/** Each is a part of what makes one-time passwords, or belongs to a program. */
const NOT_VALUES = /^(Title|UserName|Password|URL|Notes|otp|TOTP (Seed|Settings)|(Time|Hmac)Otp-.*|KP2A_URL.*|KPEX_.*|_etm_.*|KPRPC JSON)$/i

export function keepassBackend(token: string, files: CredentialFiles): Backend {
  const { file, password, keyfile } = jsonToken(Token, token)

  async function readNow(signal: AbortSignal): Promise<Entry[]> {
    const bytes = await files.read(file, { maxBytes: MAX_FILE })
    const key = keyfile === undefined ? undefined : await files.read(keyfile, { maxBytes: MAX_KEY_FILE })
    return readEntries(await openKdbx(bytes, compositeKey(password, key), signal), signal)
  }
  // A caller who goes away leaves at once, and the slot is free when the work has ended, which cannot be stopped everywhere.
  const read = (signal: AbortSignal): Promise<Entry[]> =>
    abortable(
      opening.run(() => readNow(signal), signal),
      signal,
    )

  return {
    async test(signal) {
      const vaults = (await read(signal)).map(vaultOf)
      return [...new Map(vaults.map((vault) => [vault.id, vault])).values()]
    },
    listItems: async (signal) =>
      (await read(signal)).map((entry): Item => ({ id: entry.id, title: titleOf(entry), vault: vaultOf(entry), urls: urlsOf(entry) })),
    async resolve({ id }, signal) {
      const entry = (await read(signal)).find((one) => one.id === id)
      if (!entry) throw new BackendProblem('the entry is not in the KeePass file any more', { isMissing: true })
      return valuesOf(entry)
    },
  }
}

const titleOf = ({ fields }: Entry): string => fields.get('Title') ?? ''

/** Its group, named as in KeePassXC's command line: by the groups below the root. Entries of the root itself are in the root. */
function vaultOf({ groups }: Entry): Vault {
  const name = (groups.length > 1 ? groups.slice(1) : groups).map((group) => group.name).join('/')
  return { id: groups.at(-1)?.id ?? '', name }
}

const urlsOf = ({ fields }: Entry): string[] => [...fields].filter(([name, url]) => /^(URL|KP2A_URL.*)$/i.test(name) && url !== '').map(([, url]) => url)

function valuesOf(entry: Entry): ItemValues {
  const { fields } = entry
  const known = [
    ['username', fields.get('UserName')],
    ['password', fields.get('Password')],
  ] as const
  const values = Object.fromEntries(
    [...known, ...[...fields].filter(([name]) => !NOT_VALUES.test(name))].filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ''),
  )
  if (Object.values(values).some((value) => /\{REF:/i.test(value)))
    throw new BackendProblem('the entry has a reference to another entry in it, which is not followed')
  return { values, totp: totpOf(fields), urls: urlsOf(entry) }
}

/** As KeePassXC keeps it (`otp`), as its older plug-in did (`TOTP Seed`), and as KeePass does (`TimeOtp-…`). */
function totpOf(fields: Map<string, string>): string | undefined {
  const otp = readOtp(fields.get('otp') ?? '')
  if (otp !== undefined) return otp
  const seed = fields.get('TOTP Seed')
  const [period, digits] = (fields.get('TOTP Settings') ?? '').split(';')
  if (seed) return otpauth({ secret: seed, period: period || undefined, digits: /^\d+$/.test(digits ?? '') ? digits : undefined })
  const secret = timeOtpSecret(fields)
  if (secret === undefined) return undefined
  const algorithm = fields.get('TimeOtp-Algorithm')?.replace(/^HMAC-SHA-/i, 'SHA')
  return otpauth({ secret, period: fields.get('TimeOtp-Period'), digits: fields.get('TimeOtp-Length'), algorithm })
}

function timeOtpSecret(fields: Map<string, string>): string | undefined {
  const plain = fields.get('TimeOtp-Secret-Base32')
  if (plain) return plain
  const [text, hex, base64] = ['TimeOtp-Secret', 'TimeOtp-Secret-Hex', 'TimeOtp-Secret-Base64'].map((name) => fields.get(name))
  if (text) return base32(Buffer.from(text, 'utf8'))
  if (hex) return base32(Buffer.from(hex, 'hex'))
  return base64 ? base32(Buffer.from(base64, 'base64')) : undefined
}
