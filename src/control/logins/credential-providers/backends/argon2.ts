// Argon2 with limits: how much it takes is for the one to say who made the file.
import crypto from 'node:crypto'
import { promisify } from 'node:util'
import { BackendProblem } from './backend.ts'

/** In KiB. KeePassXC takes 64 MiB by itself, and as many passes as take one second. */
const MAX_MEMORY = 256 * 1024
/** KiB times passes: some seconds of one core. */
const MAX_WORK = 8 * 1024 * 1024
const MAX_LANES = 16
const KEY_BYTES = 32

export interface Argon2Settings {
  variant: 'argon2d' | 'argon2id'
  message: Buffer
  salt: Buffer
  /** In KiB. */
  memory: number
  passes: number
  lanes: number
}

/** 32 bytes, made by a thread of Node's pool. It cannot be stopped once it has begun. `what` names the file for callers. @throws BackendProblem */
export async function deriveByArgon2(what: string, { variant, message, salt, memory, passes, lanes }: Argon2Settings): Promise<Buffer> {
  if (memory > MAX_MEMORY || memory * passes > MAX_WORK || lanes > MAX_LANES)
    throw new BackendProblem(
      `opening ${what} takes too much: Argon2 may have at most ${MAX_MEMORY / 1024} MiB, ${MAX_WORK / 1024} MiB times passes, and ${MAX_LANES} lanes; choose less in its security settings`,
    )
  // Before 24.7, which the service itself does not need.
  if (typeof crypto.argon2 !== 'function')
    throw new BackendProblem(`opening ${what} takes Argon2, which the service's Node ${process.versions.node} does not have; 24.7 does`)
  return promisify(crypto.argon2)(variant, { message, nonce: salt, memory, passes, parallelism: lanes, tagLength: KEY_BYTES }).catch(() => {
    throw new BackendProblem(`${what} has impossible settings of Argon2`)
  })
}
