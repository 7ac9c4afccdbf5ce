// Handlers of the System contract.
import { Unavailable } from '../../../base/unavailable.ts'
import { known, type Handlers, type Principal } from '../../../http/route.ts'
import { stateOf, type Db } from '../../../store/db.ts'
import type { ShelfState } from '../../sessions/browsers/fleet/shelf-state.ts'
import type { system } from './contract.ts'
import type { Disk } from './disk.ts'
import type { Metrics } from './metrics.ts'

/** What the health check needs. */
const RETRY_SECONDS = 2

const DATABASE = { ok: 'operational', full: 'partial_outage', away: 'full_outage' } as const

interface SystemParts {
  db: Db
  /** How many browsers are in each state. */
  countBrowsers: () => Promise<Record<'all' | 'own', Record<string, number>>>
  metrics: Metrics
  /** Refuses keys of a project or an app, because the metrics tell about all projects. @throws 403 */
  assertOrganization: (by: Principal) => void
  shelf: () => ShelfState
  disk: Pick<Disk, 'room'>
  openSockets: () => number
  /** Whether browsers are available: one is warm, or starting one works. */
  browsersWork: () => boolean
  openapiText: string
}

export const systemHandlers = ({
  db,
  countBrowsers,
  metrics,
  assertOrganization,
  shelf,
  disk,
  openSockets,
  browsersWork,
  openapiText,
}: SystemParts): Handlers<typeof system> => ({
  async getHealth() {
    const state = await stateOf(db)
    if (state !== 'ok') throw new Unavailable(state === 'full' ? 'the database has no space left on its disk' : 'the database does not answer', RETRY_SECONDS)
    return { status: 'ok' }
  },
  async getStatus() {
    const components = [
      { name: 'api', status: 'operational' as const },
      { name: 'database', status: DATABASE[await stateOf(db)] },
      { name: 'browsers', status: browsersWork() ? ('operational' as const) : ('degraded_performance' as const) },
      // No new work is started while the disk is full.
      { name: 'disk', status: disk.room.problem === undefined ? ('operational' as const) : ('partial_outage' as const) },
    ]
    const status = components.find((component) => component.status !== 'operational')?.status ?? 'operational'
    return { status, groups: [{ name: 'cob', status, components }] }
  },
  async getMetrics({ principal }) {
    assertOrganization(known(principal))
    return metrics.render(await countBrowsers(), shelf(), openSockets(), disk.room)
  },
  getOpenapi: () => openapiText,
})
