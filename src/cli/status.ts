// `cob status`: the state of the service of these settings, for a person or a script on its machine.
import type { Config } from '../base/config.ts'
import { ConfigError } from '../base/setting.ts'
import { serviceStatus } from '../control/service/service-status.ts'
import { withDatabase } from '../control/service/with-database.ts'
import { keyOf, reachedHost } from './env.ts'
import { stopSignal } from './stop-signal.ts'
import { table } from './table.ts'

/** Prints the state. Returns the exit code: 1 when no service answers, or when it cannot do its work. */
export async function status(config: Config, { json = false }: { json?: boolean }): Promise<number> {
  if (config.port === 0) throw new ConfigError('COB_PORT', 'is 0, so the port is known to the running service only: set it')
  const signal = stopSignal()
  // The service itself, not a proxy in front of it.
  const place = { host: reachedHost(config), port: config.port }
  const found = await serviceStatus({
    ...place,
    key: keyOf(config).value,
    withDatabase: (work) => withDatabase(config, signal, (db, _paths, _address, scope) => work(db, scope)),
    signal,
  })
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  if (!found) {
    if (json) say(JSON.stringify({ ...place, status: 'no_answer' }))
    else say(`no service answers at port ${place.port} of ${place.host}`)
    return 1
  }
  const { status: overall, components, browsers, diskFreeBytes, replicas } = found
  if (json) say(JSON.stringify({ ...place, status: overall, components, browsers, disk_free_bytes: diskFreeBytes ?? null, replicas }))
  else {
    const counts = Object.entries(browsers).flatMap(([state, count]) => (count > 0 ? [`${count} ${state}`] : []))
    const lines = table(
      ['service', `port ${place.port} of ${place.host}: ${overall}`],
      [
        ...components.map(({ name, status: its }) => [name, its]),
        ['sessions', counts.join(', ') || 'none'],
        ['free disk', diskFreeBytes === undefined ? 'unknown' : `${(diskFreeBytes / 1_000_000_000).toFixed(1)} GB`],
        ['replicas', replicas.length > 0 ? replicas.join(', ') : 'none: one service works alone (no COB_REPLICAS)'],
      ],
    )
    for (const line of lines) say(line)
  }
  return overall === 'full_outage' ? 1 : 0
}
