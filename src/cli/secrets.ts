// `cob secrets`: the keys that encrypt stored values. It lists them, adds a new one, and removes those that no value needs any more.
import { existsSync } from 'node:fs'
import type { Config } from '../base/config.ts'
import { ConfigError } from '../base/setting.ts'
import { readKeyFile, type Keys } from '../base/keys.ts'
import type { DataPaths } from '../base/paths.ts'
import { alone, beginRotation, completeRotation, countByKey, forgetUnused, reencrypt } from '../control/service/rotation.ts'
import { serviceKeys } from '../control/service/service-keys.ts'
import { withDatabase } from '../control/service/with-database.ts'
import { stopSignal } from './stop-signal.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** @throws instead of making the first key: a service makes it */
function keysOf(config: Config, paths: DataPaths): Keys {
  if (config.secretKey === undefined && !existsSync(paths.secretKey))
    throw new Error(`${paths.secretKey} is missing: start the service once, or set COB_SECRET_KEY as the service has it`)
  return serviceKeys(config, paths)
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** `cob secrets rotate`. Returns the exit code. */
export async function rotateSecrets(config: Config): Promise<number> {
  const isSet = config.sealingKeys.length > 0
  if (config.secretKey !== undefined && !isSet)
    throw new ConfigError(
      'COB_SECRET_KEY',
      'is set, so the keys of this service are in its settings: put a new key (openssl rand -hex 32) into COB_SEALING_KEYS of every service on this database, start them again, and run this with the same settings (docs/credentials.md)',
    )
  const signal = stopSignal()
  return withDatabase(config, signal, (db, paths) =>
    alone(db, async () => {
      const keys = keysOf(config, paths)
      const isNew = !isSet && beginRotation(paths.sealingKeys)
      const [{ id }] = keys.sealing()
      if (isSet) say(`using the first key of COB_SEALING_KEYS, ${id}`)
      else say(isNew ? `made a new key, ${id}, in ${paths.sealingKeys}` : `going on with the key ${id}, which a rotation has made that was not completed`)
      const { changed, unreadable } = await reencrypt({ db, keys, signal })
      say(`encrypted ${counted(changed, 'value')} again`)
      if (!isSet) completeRotation(paths.sealingKeys)
      for (const which of unreadable) say(`cannot be read with any key, and stays as it is: ${which}`)
      const others = readKeyFile(paths.sealingKeys).filter((key) => key.id !== id).length
      if (!isSet && others > 0)
        say(`${counted(others, 'older key')} can still decrypt, for backups from before; "cob secrets forget" removes what nothing needs`)
      return unreadable.length > 0 ? 1 : 0
    }),
  )
}

/** `cob secrets list`. */
export const listSecrets = (config: Config): Promise<number> =>
  withDatabase(config, stopSignal(), async (db, paths) => {
    const keys = keysOf(config, paths)
    const counts = await countByKey(db, keys)
    const file = readKeyFile(paths.sealingKeys)
    const all = keys.sealing()
    for (const [at, { id }] of all.entries()) {
      const ofFile = file.find((key) => key.id === id)
      const from = ofFile
        ? `${paths.sealingKeys}, made ${ofFile.madeAt.toISOString()}`
        : id !== keys.root.id
          ? 'COB_SEALING_KEYS'
          : config.secretKey
            ? 'COB_SECRET_KEY'
            : paths.secretKey
      const roles = [at === 0 ? 'encrypts' : 'decrypts', ...(id === keys.root.id ? ['signs'] : []), ...(ofFile?.isTakingOver ? ['rotation not complete'] : [])]
      const before = id === keys.root.id ? (counts.get(undefined) ?? 0) : 0
      say(`${id}  ${roles.join(', ')}; ${counted((counts.get(id) ?? 0) + before, 'value')}; ${from}`)
    }
    for (const [id, count] of counts)
      if (id !== undefined && !all.some((key) => key.id === id)) say(`${id}  missing: ${counted(count, 'value')} cannot be read without it`)
    return 0
  })

/** `cob secrets forget`. */
export const forgetSecrets = (config: Config): Promise<number> =>
  withDatabase(config, stopSignal(), (db, paths) =>
    alone(db, async () => {
      const { forgotten, kept } = await forgetUnused(db, keysOf(config, paths), paths.sealingKeys)
      for (const { id } of forgotten) say(`removed ${id}`)
      for (const { key, why } of kept) say(`kept ${key.id}: ${why}`)
      if (forgotten.length + kept.length === 0) say('there is no older key to remove')
      return kept.length > 0 ? 1 : 0
    }),
  )
