// `cob keys`: API keys, on the machine of the service. It needs no key: a user who may read the data directory has one.
import type { Config } from '../base/config.ts'
import type { CreatedApiKey } from '../control/access/api-keys/contract.ts'
import { keyCommands } from '../control/access/key-commands.ts'
import { withDatabase } from '../control/service/with-database.ts'
import { stopSignal } from './stop-signal.ts'
import { table } from './table.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const tell = (line: string): void => void process.stderr.write(`cob: ${line}\n`)

function withKeys(config: Config, work: (keys: Awaited<ReturnType<typeof keyCommands>>) => Promise<void>): Promise<void> {
  const signal = stopSignal()
  return withDatabase(config, signal, async (db, _paths, _address, scope) => work(await keyCommands(db, scope)))
}

/** `cob keys list`. */
export const listKeys = (config: Config): Promise<void> =>
  withKeys(config, async (keys) => {
    const rows = (await keys.list()).map((key) => [key.id, key.name, key.masked_key, key.project_name ?? 'all', key.created_at, key.expires_at ?? 'never'])
    for (const line of table(['ID', 'NAME', 'KEY', 'PROJECT', 'CREATED', 'EXPIRES'], rows)) say(line)
  })

/** Only the key is on standard output, so that a script can read it. */
const sayNew = ({ id, name, key, expires_at, project_name }: CreatedApiKey) => {
  tell(
    `the key "${name}" (${id}) for ${project_name === null ? 'all projects' : `the project "${project_name}"`}, which ${expires_at ? `expires at ${expires_at}` : 'never expires'}; it is shown only this once:`,
  )
  say(key)
}

/** `cob keys create`. */
export const createKey = (config: Config, name: string, { project, expiresDays }: { project?: string; expiresDays?: number }): Promise<void> =>
  withKeys(config, async (keys) => sayNew(await keys.create(name, { project, days: expiresDays })))

/** `cob keys rotate`. */
export const rotateKey = (config: Config, id: string, { expiresDays, oldExpiresDays }: { expiresDays?: number; oldExpiresDays?: number }): Promise<void> =>
  withKeys(config, async (keys) => {
    sayNew(await keys.rotate(id, { days: expiresDays, oldDays: oldExpiresDays }))
    const old = (await keys.list()).find((key) => key.id === id)
    tell(`the old key works until ${old?.expires_at ?? 'it is deleted'}`)
  })

/** `cob keys delete`. */
export const deleteKey = (config: Config, id: string): Promise<void> =>
  withKeys(config, async (keys) => {
    await keys.remove(id)
    tell(`deleted ${id}; a service that runs may take it for two seconds more`)
  })
