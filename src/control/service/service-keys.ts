// The keys of this service, from its settings and its data directory.
import { randomBytes } from 'node:crypto'
import type { Config } from '../../base/config.ts'
import { openKeys, type Keys } from '../../base/keys.ts'
import type { DataPaths } from '../../base/paths.ts'
import { secretFile } from '../../base/secret-file.ts'

export type KeySettings = Pick<Config, 'secretKey' | 'sealingKeys'>

/** Creates the first key when there is none. @throws when the file has other text: a character that is no hex digit would end the key early */
export function serviceKeys({ secretKey, sealingKeys }: KeySettings, paths: Pick<DataPaths, 'secretKey' | 'sealingKeys'>): Keys {
  const root = secretKey ?? secretFile(paths.secretKey, () => randomBytes(32).toString('hex')).value
  if (!/^[0-9a-f]{64}$/i.test(root)) throw new Error(`${paths.secretKey} is not a key of 64 hex digits; put back the file as it was`)
  return openKeys({
    root: Buffer.from(root, 'hex'),
    set: sealingKeys.map((key) => Buffer.from(key, 'hex')),
    file: paths.sealingKeys,
  })
}
