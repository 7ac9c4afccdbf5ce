// `cob upgrade`: the state of the database, and what a start of this version would change in it.
import type { Config } from '../base/config.ts'
import { VERSION } from '../base/version.ts'
import { breaks, standingOf, withAnyDatabase } from '../control/service/with-database.ts'
import { stopSignal } from './stop-signal.ts'

const HOW = [
  'There is nothing to run: a service of a newer version upgrades the database when it starts.',
  '  1. cob backup <folder>      with the present version. It is the way back when an upgrade does more than add to the tables.',
  '  2. cob upgrade --check      with the new version: what its start will do',
  '  3. start the new version    (several replicas: one after the other, unless step 2 says otherwise; docs/operations.md)',
  'To go back: start the old version, which says when it cannot work with the tables. Then cob restore the backup into an empty place, with the version that has made it.',
]

/** Prints how to upgrade, or the state of the database. Returns the exit code: 1 when this version cannot start with it. */
export async function upgrade(config: Config, { check = false }: { check?: boolean }): Promise<number> {
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  if (!check) {
    for (const line of HOW) say(line)
    return 0
  }
  const { schema, why } = await withAnyDatabase(config, stopSignal(), standingOf)
  const { done, pending, unknown } = schema
  say(`this version   Cob ${VERSION}, ${done.length + pending.length} migrations`)
  say(
    `the database   ${config.databaseUrl ? 'in DATABASE_URL' : config.dataDir}, ${done.length + unknown.length} migrations${done.length > 0 ? `, the last one ${(unknown.at(-1) ?? done.at(-1))!}` : ''}`,
  )
  if (why !== undefined) {
    say(`a start        is refused: ${why}`)
    return 1
  }
  if (unknown.length > 0)
    say(`a start        changes nothing: a newer version of Cob has added to the tables (${unknown.join(', ')}), and this one works with them`)
  else if (pending.length === 0) say('a start        changes nothing: the database is up to date')
  else {
    say(`a start        makes ${pending.length} migration${pending.length === 1 ? '' : 's'}: ${pending.join(', ')}`)
    say(
      pending.some(breaks)
        ? '               An older version cannot work with the tables afterwards: stop all replicas first, and make a backup with the present version'
        : '               They only add to the tables: replicas of the present version may go on, and may be started again',
    )
  }
  return 0
}
