// Invocations: runs of the actions of apps.
import { sql } from 'kysely'
import { defineModule, phases } from '../../module.ts'
import { projects } from '../../access/projects/module.ts'
import { inside } from '../../service/addresses.ts'
import { browsers } from '../../sessions/browsers/module.ts'
import { deployments, running } from '../deployments/module.ts'
import { buildsInProgress } from '../deployments/rows.ts'
import { invocations as contract } from './contract.ts'
import { invocationHandlers } from './handlers.ts'
import { Invocations } from './invocations.ts'
import { endedRuns } from './purge.ts'
import { countUnfinished } from './rows.ts'
import { Runs } from './runs.ts'

export const invocations = defineModule({
  name: 'invocations',
  contracts: [contract],
  duties: ['runs'],
  purges: ({ db, scope, config }) => [endedRuns(db, scope, config.keepEndedDays)],
  holdings: [{ called: 'unfinished invocations', isAtWork: true, table: 'invocations', isOver: sql`finished_at is not null` }],
  counts: { invocations: countUnfinished },
  open(house) {
    const { db, scope, notifier, config, serving } = house
    const made = house.of(deployments)
    const { browsers: rules } = house.of(browsers)
    const runs = new Runs({
      ...house,
      apiUrl: serving.listening.then(inside),
      maxInvocations: config.maxInvocations,
      projectSeats: house.of(projects).caps.invocations,
      appMemoryMb: config.appMemoryMb,
      logLimits: { runBytes: config.runLogMb * 1024 * 1024, deploymentBytes: config.appLogMb * 1024 * 1024 },
      logLevel: config.logLevel,
      environment: (id) => made.environment(id),
      code: (id) => made.code(id),
      retire: (id) => made.retire(id),
      building: async () => new Set((await buildsInProgress(db, scope)).map((build) => build.sandbox_id)),
      endBrowsers: (id) => rules.endOfInvocation(id),
      endBrowsersLeft: () => rules.endLeftByInvocations(),
    })
    const invocations = new Invocations({ db, notifier, scope, runs, maxInvocations: config.maxInvocations })
    house.fill(running, { end: (id, reason) => runs.endAll(id, reason), begun: (id) => runs.prepare(id) })
    house.use({ [Symbol.dispose]: notifier.on('look', (text) => runs.onNotice(text)) })
    house.mount(contract, invocationHandlers(invocations, rules))
    // This also runs when the start fails after it has taken over runs.
    house.use({ [Symbol.asyncDispose]: () => runs.stop() })
    house.fill(phases.settle, () => runs.adopt())
    house.fill(phases.stop, () => runs.stop())
  },
})
