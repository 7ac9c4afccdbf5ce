// Replays: recordings of sessions, fetched from their agents, stored and shown.
import { makeSpool } from '../../../store/spool.ts'
import { defineModule, phases } from '../../module.ts'
import { dashboard } from '../../service/dashboard/module.ts'
import { atSession } from '../browsers/instance-apis.ts'
import { reaching, sessionEnding } from '../browsers/hooks.ts'
import { watched } from '../browsers/watched.ts'
import { replays as contract } from './contract.ts'
import { replayEvents } from './events.ts'
import { replayHandlers } from './handlers.ts'
import { replaySigner } from './links.ts'
import { servePlayer } from './player.ts'
import { makeReplays, type Replays } from './replays.ts'
import { replayObjects } from './rows.ts'
import { endRecordings, Transfers } from './transfers.ts'

export const replays = defineModule<Replays>({
  name: 'replays',
  contracts: [contract],
  objects: [replayObjects],
  duties: ['replays'],
  open(house) {
    const { db, objects, leases, notifier, paths, keys, config, disk, log } = house
    const { registry, tellWatcher, findSession } = house.of(watched)
    const reach = house.ask(reaching)
    const transfers = new Transfers()
    const replays = makeReplays({
      ...house,
      tellWatcher,
      spool: makeSpool(paths.spool),
      transfers,
      tokens: replaySigner(keys.root.secret),
      retentionDays: config.replayRetentionDays,
      fullDisk: () => disk.room.problem,
      findSession,
      reach: (project, called) => reach()(project, called, { isForLogins: true }),
      endpointOf: (id) => registry.endpointOf(id),
    })
    const hasInstance = (id: string) => registry.get(id) !== undefined
    house.fill(
      sessionEnding,
      endRecordings(transfers, hasInstance, () => leases.catchUp(() => replays.look())),
    )
    for (const each of [contract, atSession(contract)]) house.mount(each, replayHandlers(replays))
    const events = replayEvents({ db, objects })
    house.serve(({ app }) => servePlayer(app, { replays, events, pages: house.of(dashboard), log }))
    const look = () => void replays.look().catch((err: unknown) => log.warn({ err }, 'looking for recordings of other replicas failed'))
    house.use({ [Symbol.dispose]: notifier.on('look', (text) => text === leases.replica && look()) })
    house.fill(phases.adopt, () => replays.adopt())
    house.fill(phases.close, () => replays[Symbol.asyncDispose]())
    return replays
  },
})
