// The keys of this service, from its settings and its data directory.
import { randomBytes } from 'node:crypto'
import type { Config } from '../base/config.ts'
import { openKeys, type Keys } from '../base/keys.ts'
import type { DataPaths } from '../base/paths.ts'
import { secretFile } from '../base/secret-file.ts'

export type KeySettings = Pick<Config, 'secretKey' | 'sealingKeys'>

/** Makes the first key when there is none. */
export const serviceKeys = ({ secretKey, sealingKeys }: KeySettings, paths: Pick<DataPaths, 'secretKey' | 'sealingKeys'>): Keys =>
  openKeys({
    root: Buffer.from(secretKey ?? secretFile(paths.secretKey, () => randomBytes(32).toString('hex')).value, 'hex'),
    set: sealingKeys.map((key) => Buffer.from(key, 'hex')),
    file: paths.sealingKeys,
  })
