// The type `bitwarden-export`: a JSON export of Bitwarden or Vaultwarden, plain or protected with its own password.
import crypto, { createDecipheriv, createHash, createHmac, pbkdf2, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import * as z from 'zod'
import { Slots } from '../../../../base/slots.ts'
import { abortable } from '../../../../base/wait.ts'
import { assertFew, BackendProblem, parseJson, type Backend } from './backend.ts'
import { BitwardenItem, Folder, itemOf, loginsOf, valuesOf, vaultsOf } from './bitwarden-item.ts'
import type { CredentialFiles } from './files.ts'
import { FilePath, jsonToken } from './token.ts'

const MAX_BYTES = 32 * 1024 * 1024
const MAX_PBKDF2 = 2_000_000
/** Limit on the memory of Argon2, in KiB. */
const MAX_MEMORY = 256 * 1024
/** Limit on KiB times passes: some seconds of one core. */
const MAX_WORK = 8 * 1024 * 1024
const MAX_LANES = 16
const KEY_BYTES = 32

const Token = z.strictObject({ file: FilePath, password: z.string().min(1).optional() })

const Plain = z.object({ encrypted: z.literal(false), folders: z.array(Folder).default([]), items: z.array(BitwardenItem) })
type Plain = z.output<typeof Plain>
const Protected = z.object({
  encrypted: z.literal(true),
  passwordProtected: z.literal(true),
  salt: z.string(),
  kdfType: z.union([z.literal(0), z.literal(1)]),
  kdfIterations: z.int().min(1),
  kdfMemory: z.int().min(1).nullish(),
  kdfParallelism: z.int().min(1).nullish(),
  encKeyValidation_DO_NOT_EDIT: z.string(),
  data: z.string(),
})
type Protected = z.output<typeof Protected>

/** One at a time over all providers: each needs memory, and a core for some time. */
const opening = new Slots(1)

export function bitwardenExportBackend(token: string, files: CredentialFiles): Backend {
  const { file, password } = jsonToken(Token, token)

  async function readNow(): Promise<Plain> {
    // A plain export contains passwords.
    const bytes = await files.read(file, { maxBytes: MAX_BYTES, isPrivate: true })
    const content = parseJson(bytes.toString('utf8'), 'the export')
    const locked = Protected.safeParse(content).data
    if (locked && password === undefined) throw new BackendProblem('the export is protected with a password, and the token has none')
    const plain = Plain.safeParse(locked ? parseJson(await unlock(locked, password!), 'what is in the export') : content).data
    if (!plain) throw new BackendProblem('the export is no JSON export of Bitwarden, or one that only its account can open; choose "password protected"')
    assertFew(plain.items.length)
    return plain
  }
  // The work cannot be stopped, so the slot is free only when it has ended.
  const read = (signal: AbortSignal) => abortable(opening.run(readNow, signal), signal)

  return {
    test: async (signal) => vaultsOf((await read(signal)).folders),
    async listItems(signal) {
      const { folders, items } = await read(signal)
      const vaults = vaultsOf(folders)
      return loginsOf(items).map((item) => itemOf(item, vaults))
    },
    resolve: async ({ id }, signal) => valuesOf(loginsOf((await read(signal)).items).find((item) => item.id === id)),
  }
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest()

async function keyOf(locked: Protected, password: string): Promise<Buffer> {
  const { kdfType, kdfIterations: passes, kdfMemory: mebibytes, kdfParallelism: lanes, salt } = locked
  if (kdfType === 0) {
    if (passes > MAX_PBKDF2) throw new BackendProblem(`the export asks for more than ${MAX_PBKDF2} rounds of PBKDF2, the limit`)
    return promisify(pbkdf2)(password, salt, passes, KEY_BYTES, 'sha256')
  }
  if (!mebibytes || !lanes) throw new BackendProblem('the export does not say how its key is derived')
  const memory = mebibytes * 1024
  if (memory > MAX_MEMORY || memory * passes > MAX_WORK || lanes > MAX_LANES)
    throw new BackendProblem(
      `opening the export takes too much: Argon2 may have at most ${MAX_MEMORY / 1024} MiB, ${MAX_WORK / 1024} MiB times passes, and ${MAX_LANES} lanes; choose less in its security settings`,
    )
  // The service itself also runs with Node before 24.7.
  if (typeof crypto.argon2 !== 'function')
    throw new BackendProblem(`opening the export takes Argon2, which the service's Node ${process.versions.node} does not have; 24.7 does`)
  const settings = { message: Buffer.from(password, 'utf8'), nonce: sha256(salt), memory, passes, parallelism: lanes, tagLength: KEY_BYTES }
  return promisify(crypto.argon2)('argon2id', settings).catch(() => {
    throw new BackendProblem('the export has impossible settings of Argon2')
  })
}

async function unlock(locked: Protected, password: string): Promise<string> {
  const key = await keyOf(locked, password)
  // HKDF-Expand of one block (RFC 5869).
  const [encrypting, signing] = ['enc', 'mac'].map((use) => createHmac('sha256', key).update(`${use}\u0001`).digest()) as [Buffer, Buffer]
  if (opened(locked.encKeyValidation_DO_NOT_EDIT, encrypting, signing) === undefined) throw new BackendProblem('the password of the export is wrong')
  const text = opened(locked.data, encrypting, signing)
  if (text === undefined) throw new BackendProblem('the export is damaged')
  return text
}

/** `2.<iv>|<text>|<mac>`: AES-256-CBC, signed with HMAC-SHA-256. Undefined when the signature is wrong. */
function opened(sealed: string, encrypting: Buffer, signing: Buffer): string | undefined {
  const [, ...parts] = /^2\.([^|]+)\|([^|]+)\|([^|]+)$/.exec(sealed) ?? []
  const [iv, text, mac] = parts.map((part) => Buffer.from(part, 'base64'))
  if (!iv || !text || !mac || iv.length !== 16) return undefined
  const right = createHmac('sha256', signing).update(iv).update(text).digest()
  if (mac.length !== right.length || !timingSafeEqual(mac, right)) return undefined
  const decipher = createDecipheriv('aes-256-cbc', encrypting, iv)
  return Buffer.concat([decipher.update(text), decipher.final()]).toString('utf8')
}
