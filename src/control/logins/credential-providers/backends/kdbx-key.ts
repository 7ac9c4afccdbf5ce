// The key of a KDBX 4 file: what password and key file come to, and its derivation, which is made to be expensive and therefore has limits here.
import { createCipheriv, createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { deriveByArgon2 } from './argon2.ts'
import { BackendProblem } from './backend.ts'

/** The derivation's parameters as the file has them. */
export type KDF = Map<string, Buffer | bigint>

const ARGON2D = 'ef636ddf8c29444b91f7a9a403e30a0c'
const ARGON2ID = '9e298b1956db4773b23dfc3ec6f0a1e6'
const AES = ['c9d9f39a628a4460bf740d08c18a4fea', '7c02bb8279a74ac0927d114a00648238']

/** A second of one core, or less. */
const MAX_ROUNDS = 20_000_000n
const KEY_BYTES = 32
/** Encrypted at once by AES: some milliseconds. */
const PIECE = 4 * 1024 * 1024

const sha256 = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()

/** The key that a password and a key file make together. */
export function compositeKey(password: string | undefined, keyFile: Buffer | undefined): Buffer {
  return sha256(Buffer.concat([...(password === undefined ? [] : [sha256(Buffer.from(password, 'utf8'))]), ...(keyFile ? [keyOfFile(keyFile)] : [])]))
}

/** Key files are XML, 32 bytes, 64 hex digits, or any other file. */
function keyOfFile(bytes: Buffer): Buffer {
  const text = bytes.toString('utf8')
  if (/<KeyFile>/.test(text)) {
    const version = /<Version>\s*(\d)/.exec(text)?.[1]
    const data = /<Data(?:\s[^>]*)?>([^<]*)<\/Data>/.exec(text)?.[1]?.replace(/\s+/g, '')
    const key = data === undefined ? undefined : Buffer.from(data, version === '2' ? 'hex' : 'base64')
    if (key?.length !== KEY_BYTES) throw new BackendProblem('the key file of the KeePass file has an unknown form')
    return key
  }
  if (bytes.length === KEY_BYTES) return bytes
  if (bytes.length === 2 * KEY_BYTES && /^[\da-f]{64}$/i.test(text)) return Buffer.from(text, 'hex')
  return sha256(bytes)
}

/** What has begun may go on after an abort. @throws BackendProblem when it costs more than is allowed; the signal's reason */
export async function deriveKey(kdf: KDF, composite: Buffer, signal: AbortSignal): Promise<Buffer> {
  signal.throwIfAborted()
  const id = bytesOf(kdf, '$UUID').toString('hex')
  if (id === ARGON2D || id === ARGON2ID) return byArgon2(id === ARGON2D ? 'argon2d' : 'argon2id', kdf, composite)
  if (AES.includes(id)) return byAes(bytesOf(kdf, 'S'), numberOf(kdf, 'R'), composite, signal)
  throw new BackendProblem('the KeePass file uses an unknown key derivation')
}

function byArgon2(variant: 'argon2d' | 'argon2id', kdf: KDF, composite: Buffer): Promise<Buffer> {
  if (kdf.has('V') && numberOf(kdf, 'V') !== 0x13n) throw new BackendProblem('the KeePass file uses an old version of Argon2')
  // The file has its memory in bytes.
  const [memory, passes, lanes] = [Number(numberOf(kdf, 'M') / 1024n), Number(numberOf(kdf, 'I')), Number(numberOf(kdf, 'P'))]
  return deriveByArgon2('the KeePass file', { variant, message: composite, salt: bytesOf(kdf, 'S'), memory, passes, lanes })
}

/**
 * AES in CBC mode over zeros, from the block on that is to be transformed: each block that comes out is the one before it, encrypted once more. One call instead of millions.
 */
async function byAes(key: Buffer, rounds: bigint, composite: Buffer, signal: AbortSignal): Promise<Buffer> {
  if (rounds > MAX_ROUNDS)
    throw new BackendProblem(`opening the KeePass file takes more than ${MAX_ROUNDS} rounds of AES; choose less in its security settings`)
  if (key.length !== KEY_BYTES || rounds < 1n) throw new BackendProblem('the KeePass file has impossible settings of AES')
  const zeros = Buffer.alloc(PIECE)
  const halves = [composite.subarray(0, 16), composite.subarray(16)]
  const done: Buffer[] = []
  for (const half of halves) {
    const cipher = createCipheriv('aes-256-cbc', key, half).setAutoPadding(false)
    let last = half
    for (let left = Number(rounds) * 16; left > 0; left -= PIECE) {
      last = cipher.update(zeros.subarray(0, Math.min(PIECE, left))).subarray(-16)
      await setImmediate()
      signal.throwIfAborted()
    }
    done.push(Buffer.from(last))
  }
  return sha256(Buffer.concat(done))
}

function bytesOf(kdf: KDF, name: string): Buffer {
  const value = kdf.get(name)
  if (!Buffer.isBuffer(value)) throw new BackendProblem('the KeePass file does not say how its key is derived')
  return value
}

function numberOf(kdf: KDF, name: string): bigint {
  const value = kdf.get(name)
  if (typeof value !== 'bigint') throw new BackendProblem('the KeePass file does not say how its key is derived')
  return value
}
