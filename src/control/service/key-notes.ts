// Tells whether a service that continues elsewhere has the keys of the stored secrets.
import { existsSync } from 'node:fs'
import type { Config } from '../../base/config.ts'
import type { DataPaths } from '../../base/paths.ts'
import type { Db } from '../../store/db.ts'
import { countByKey } from './rotation.ts'
import { serviceKeys } from './service-keys.ts'

/** Reports whether the settings have the keys that the stored secrets need. The keys are not in the database, so they do not move with it. */
export async function sayKeys(config: Config, db: Db, paths: DataPaths, say: (line: string) => void): Promise<void> {
  if (config.secretKey === undefined && !existsSync(paths.secretKey))
    return say(
      `note    there is no key here: neither ${paths.secretKey} nor COB_SECRET_KEY. What is encrypted cannot be read without the one that the service had`,
    )
  const keys = serviceKeys(config, paths)
  const known = new Set(keys.sealing().map(({ id }) => id))
  for (const [id, count] of await countByKey(db, keys))
    if (id !== undefined && !known.has(id))
      say(
        `note    ${count} stored secret${count === 1 ? '' : 's'} cannot be read with the keys of these settings: the key ${id} is missing (COB_SECRET_KEY, COB_SEALING_KEYS)`,
      )
}
