// The keys of a service: the signing key, and those that encrypt stored values. They are kept outside the database: in files, or in settings.
import { chownSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { derivedKey } from './derived-key.ts'
import { flushFolder } from './flush-folder.ts'

export interface SealingKey {
  /** Identifies the key in its encrypted values. It reveals nothing of the key itself. */
  id: string
  secret: Buffer
}

export interface Keys {
  /** Signs tokens. It never changes while the service runs. Values from before keys had ids were encrypted with it. */
  readonly root: SealingKey
  /**
   * The keys that encrypt, at this moment: the first encrypts, all of them decrypt; the root is the last. Read this at each use: `cob secrets` changes them
   * meanwhile.
   */
  sealing(): readonly [SealingKey, ...SealingKey[]]
}

/** Bytes of a key's id. */
export const KEY_ID_BYTES = 8

export const sealingKey = (secret: Buffer): SealingKey => ({
  id: Buffer.from(derivedKey(secret, 'cob-key-id')).subarray(0, KEY_ID_BYTES).toString('hex'),
  secret,
})

const withRoot = (root: SealingKey, others: readonly SealingKey[]): [SealingKey, ...SealingKey[]] =>
  (others.some(({ id }) => id === root.id) ? [...others] : [...others, root]) as [SealingKey, ...SealingKey[]]

/** Keys that never change. */
export function fixedKeys(root: Buffer, ...others: Buffer[]): Keys {
  const key = sealingKey(root)
  const all = withRoot(key, others.map(sealingKey))
  return { root: key, sealing: () => all }
}

/** A key of the file. */
export interface FileKey extends SealingKey {
  madeAt: Date
  /** Whether values of older keys are still being re-encrypted with it. */
  isTakingOver: boolean
}

const LINE = /^([0-9a-f]{64}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)( taking-over)?$/
const HEAD = '# The keys that encrypt stored values, newest first (cob secrets). Losing one loses what it has encrypted.'

/** The keys of the file, newest first; none when there is no file. @throws when {@link writeKeyFile} has not written it */
export function readKeyFile(file: string): FileKey[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const [, hex, madeAt, takingOver] = LINE.exec(line) ?? []
    if (!hex) throw new Error(`${file} has a line that is not a key; put back the file as it was`)
    return { ...sealingKey(Buffer.from(hex, 'hex')), madeAt: new Date(madeAt!), isTakingOver: takingOver !== undefined }
  })
}

/** Replaces the file as a whole. When this returns, the file is on the disk: it must be there before any value that a new key has encrypted. */
export function writeKeyFile(file: string, keys: readonly FileKey[]): void {
  const lines = keys.map(({ secret, madeAt, isTakingOver }) => `${secret.toString('hex')} ${madeAt.toISOString()}${isTakingOver ? ' taking-over' : ''}`)
  // A fixed name, so that the next command replaces the file of a killed one. Only one runs at a time.
  const fresh = `${file}.new`
  try {
    writeFileSync(fresh, `${[HEAD, ...lines].join('\n')}\n`, { mode: 0o600, flush: true })
    // root may run the command for a service of another user, which must be able to read it.
    const { uid, gid } = statSync(dirname(file))
    if (process.getuid?.() === 0) chownSync(fresh, uid, gid)
    renameSync(fresh, file)
  } finally {
    rmSync(fresh, { force: true })
  }
  flushFolder(dirname(file))
}

export interface KeySources {
  root: Buffer
  /** Keys of the settings: they come before those of the file. */
  set: readonly Buffer[]
  file: string
}

/** The keys of a service. The file is checked again at each use, which takes microseconds: another process may have changed it. */
export function openKeys({ root, set, file }: KeySources): Keys {
  const [key, first] = [sealingKey(root), set.map(sealingKey)]
  let seen: { version: string; keys: [SealingKey, ...SealingKey[]] } | undefined
  const sealing = () => {
    const stat = statSync(file, { throwIfNoEntry: false, bigint: true })
    const version = stat ? `${stat.ino} ${stat.mtimeNs} ${stat.size}` : ''
    if (version === seen?.version) return seen.keys
    // Values that were encrypted with a key that is in no file any more would be lost with this process.
    if (version === '' && seen) throw new Error(`${file} is gone; put it back`)
    const others = readKeyFile(file).filter(({ id }) => !first.some((one) => one.id === id))
    seen = { version, keys: withRoot(key, [...first, ...others]) }
    return seen.keys
  }
  // A bad file ends the start, not the first request that needs it.
  sealing()
  return { root: key, sealing }
}
