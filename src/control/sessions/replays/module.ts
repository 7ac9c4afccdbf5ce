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
import { oldReplays } from './purge.ts'
import { endRecordings, Recordings } from './recordings.ts'
import { replayObjects } from './rows.ts'

export const replays = defineModule<Replays>({
  name: 'replays',
  contracts: [contract],
  objects: [replayObjects],
  purges: ({ db, objects, scope, config }) => [oldReplays(db, objects, scope, config.replayRetentionDays)],
  open(house) {
    const { db, objects, leases, notifier, paths, keys, disk, log } = house
    const { registry, tellWatcher, findSession } = house.of(watched)
    const reach = house.ask(reaching)
    const endpointOf = (id: string) => registry.endpointOf(id)
    const recordings = new Recordings({ ...house, spool: makeSpool(paths.spool), fullDisk: () => disk.room.problem, endpointOf })
    const replays = makeReplays({
      ...house,
      recordings,
      tellWatcher,
      tokens: replaySigner(keys.root.secret),
      findSession,
      reach: (project, called) => reach()(project, called, { isForLogins: true }),
      endpointOf,
    })
    const hasInstance = (id: string) => registry.get(id) !== undefined
    house.fill(
      sessionEnding,
      endRecordings(recordings, hasInstance, () => leases.catchUp(() => recordings.look())),
    )
    for (const each of [contract, atSession(contract)]) house.mount(each, replayHandlers(replays))
    const events = replayEvents({ db, objects })
    house.serve(({ app }) => servePlayer(app, { replays, events, pages: house.of(dashboard), log }))
    const look = () => void recordings.look().catch((err: unknown) => log.warn({ err }, 'looking for recordings of other replicas failed'))
    house.use({ [Symbol.dispose]: notifier.on('look', (text) => text === leases.replica && look()) })
    house.fill(phases.adopt, () => recordings.adopt())
    house.fill(phases.close, () => recordings[Symbol.asyncDispose]())
    return replays
  },
})
