// A fleet over the fake driver and a database of its own, for the tests of this file's importer.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { rmSync } from 'node:fs'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { copyTemplate } from '../../../../test/support/template.ts'
import { silentLog } from '../../../base/log.ts'
import { dataPaths, type DataPaths } from '../../../base/paths.ts'
import { until } from '../../../base/wait.ts'
import { adoptAll, USUAL_MAX_SCREEN, type Driver } from '../../../instances/driver.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { startPostgres } from '../../../store/embedded.ts'
import type { EndReason, EndStep } from './end-step.ts'
import { usualKind, type Kind } from './fleet/kinds.ts'
import { DEFAULT_VIEWPORT } from './options/contract.ts'
import { Registry } from './fleet/registry.ts'
import { fixedKeys } from '../../../base/keys.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { storedEndpoints } from '../../../http/stored-endpoint.ts'
import { Fleet } from './fleet.ts'
import type { FleetSettings } from './fleet/settings.ts'
import { removeInstance } from './fleet/endings.ts'
import type { Ownership } from './rows.ts'

const START_MS = 60_000
/** Timeout for the service to notice a change by itself. */
export const NOTICE_MS = 10_000

export const HOST = 'here'
export const signal = new AbortController().signal
export const owner = (name?: string): Ownership => ({
  project: DEFAULT_PROJECT,
  name,
  tags: {},
  options: { headless: false, stealth: false, kiosk_mode: false, viewport: DEFAULT_VIEWPORT, maxScreen: USUAL_MAX_SCREEN },
  timeoutSeconds: 60,
})

const scope = new AsyncDisposableStack()
export let paths: DataPaths
export let db: Db
export let driver: Driver
const fleets = new Set<Fleet>()
beforeAll(async () => {
  paths = dataPaths(scratchDir('cob-fleet-'))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  db = await openDb(postgres.address, silentLog)
  scope.defer(() => db.destroy())
  driver = fakeDriver(paths)
})
afterAll(() => scope.disposeAsync())
afterEach(async () => {
  await Promise.all([...fleets].map((fleet) => fleet.stop()))
  fleets.clear()
  await Promise.all((await adoptAll(driver)).map((instance) => instance[Symbol.asyncDispose]()))
  await db.deleteFrom('browsers').execute()
})

/**
 * A service's fleet, and the reasons that it has told the clients of ended browsers. `steps` replaces the steps of an end; it gets the step that ends the
 * instance. `more` replaces other settings. `abandon` leaves the fleet as a killed service does.
 */
export function makeFleet(warm: number | Kind[] = 0, over = driver, through = db, steps?: (ended: EndStep) => EndStep[], more: Partial<FleetSettings> = {}) {
  const received: [string, EndReason][] = []
  const registry = new Registry()
  const tell: EndStep = {
    name: 'clients',
    limitMs: 1_000,
    mayFail: false,
    run({ id, reason }) {
      received.push([id, reason])
      return undefined
    },
  }
  const fleet = new Fleet({
    endpoints: storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32)), 'endpoints')),
    db: through,
    driver: over,
    scope: HOST,
    registry,
    kinds: typeof warm === 'number' ? [usualKind(warm)] : warm,
    endSteps: () => steps?.(removeInstance(registry)) ?? [tell, removeInstance(registry)],
    log: silentLog,
    apiPorts: () => [],
    ...more,
  })
  fleets.add(fleet)
  return { fleet, registry, received, abandon: () => void fleets.delete(fleet) }
}
/** The work of a service after its start. */
export async function reconcile(fleet: Fleet): Promise<void> {
  await fleet.adopt()
  await fleet.endLost()
}
/** The database, and the texts of the statements that go through it. */
export function counted(): { through: Db; statements: string[] } {
  const statements: string[] = []
  const compiler = db.getExecutor()
  const through = db.withPlugin({
    transformQuery({ node, queryId }) {
      statements.push(compiler.compileQuery(node, queryId).sql.trim())
      return node
    },
    transformResult: async ({ result }) => result,
  })
  return { through, statements }
}
export const row = (id: string) => db.selectFrom('browsers').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
/** Sweeps until nothing is left of a browser. */
export const sweptAway = (fleet: Fleet, id: string) =>
  until(
    'its end',
    NOTICE_MS,
    async () => {
      await fleet.sweep()
      return (await row(id)).state === 'deleted'
    },
    { everyMs: 50 },
  )
export const way = async (id: string) =>
  (await db.selectFrom('browser_events').select('state').where('browser_id', '=', id).orderBy('id').execute()).map(({ state }) => state)
export const runningIds = async () => (await adoptAll(driver)).map(({ id }) => id).toSorted()
export const warmIds = async () => (await db.selectFrom('browsers').select('id').where('state', '=', 'warm').execute()).map(({ id }) => id)
