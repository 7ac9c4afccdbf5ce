// Deployments: uploaded code of apps. This group builds, stores and ends them.
import { sql } from 'kysely'
import { makeSealer } from '../../../base/sealed.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { apiKeys } from '../../access/api-keys/module.ts'
import { defineModule, phases, question } from '../../module.ts'
import { inside } from '../../service/addresses.ts'
import { watched } from '../../sessions/browsers/watched.ts'
import { deployments as contract } from './contract.ts'
import { Deployments } from './deployments.ts'
import { deploymentHandlers } from './handlers.ts'
import { endedDeployments, oldLines } from './purge.ts'
import { archiveObjects, codeObjects } from './rows.ts'

/** What deployments need from their runs. */
export const running = question<{
  /** Ends every run of a deployment, and resolves when none runs any more. */
  end(deployment: string, reason: string): Promise<void>
  /** A deployment has begun to run. */
  begun(deployment: string): void
}>('the runs of a deployment')

/** Where the API listens for code of apps. */
const REACHABLE = ['127.0.0.1', '0.0.0.0', '::']

export const deployments = defineModule<Deployments>({
  name: 'deployments',
  contracts: [contract],
  sealed: [sealedColumn('deployments', 'secrets', { purpose: 'deployments' })],
  objects: [archiveObjects, codeObjects],
  duties: ['builds', 'deployments'],
  purges: ({ db, scope, config }) => [oldLines(db, scope), endedDeployments(db, scope, config.keepEndedDays)],
  holdings: [{ called: 'deployments', isAtWork: false, table: 'deployments', isOver: sql`deletion = 'deleted'`, keeps: sql`deletion = 'kept'` }],
  open(house) {
    const { scope, keys, driver, notifier, config, disk, serving } = house
    const runs = house.ask(running)
    const { tell } = house.of(watched)
    /** The notice to the replica with the duty for builds: there is a build. */
    const builds = `builds of ${scope}`
    /** The same for a build that must end; the deployment's id follows. */
    const endBuild = 'end the build '
    const deployments = new Deployments({
      ...house,
      rights: house.of(apiKeys).rights,
      tellBuilder: (toEnd) => tell(toEnd === undefined ? builds : endBuild + toEnd),
      sealer: makeSealer(keys, 'deployments'),
      sandboxes: driver.apps,
      apiUrl: () => inside(serving.bound().port),
      unreachable: () =>
        REACHABLE.includes(serving.bound().address)
          ? undefined
          : 'code of apps reaches the API on 127.0.0.1, where this service does not listen: set COB_HOST to 127.0.0.1 or 0.0.0.0',
      gitBase: config.gitBase,
      memoryMb: config.appMemoryMb,
      maxCodeBytes: config.appDiskMb * 1024 * 1024,
      maxLogBytes: config.appLogMb * 1024 * 1024,
      hasRoom: () => disk.room.problem === undefined,
      logLevel: config.logLevel,
      endRuns: (id, reason) => runs().end(id, reason),
      onRunning: (id) => runs().begun(id),
    })
    const onLook = (text: string) => {
      if (text === builds) deployments.onNotice(undefined)
      else if (text.startsWith(endBuild)) deployments.onNotice(text.slice(endBuild.length))
    }
    house.use({ [Symbol.dispose]: notifier.on('look', onLook) })
    house.mount(contract, deploymentHandlers(deployments))
    house.fill(phases.start, () => deployments.start())
    house.fill(phases.stop, () => deployments[Symbol.asyncDispose]())
    return deployments
  },
})
