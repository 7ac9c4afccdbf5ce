// The System contract.
import { fault } from '../../http/fault.ts'
import type { Handlers } from '../../http/route.ts'
import { isReachable, type Db } from '../../store/db.ts'
import { countByState } from '../browsers/rows.ts'
import type { system } from './contract.ts'
import type { Disk } from './disk.ts'
import type { Metrics } from './metrics.ts'

interface SystemParts {
  db: Db
  metrics: Metrics
  disk: Pick<Disk, 'room'>
  openSockets: () => number
  /** Whether browsers can be had: one is warm, or starting one works. */
  browsersWork: () => boolean
  openapiText: string
}

export const systemHandlers = ({ db, metrics, disk, openSockets, browsersWork, openapiText }: SystemParts): Handlers<typeof system> => ({
  async getHealth() {
    if (!(await isReachable(db))) throw fault.unavailable('the database does not answer')
    return { status: 'ok' }
  },
  async getStatus() {
    const components = [
      { name: 'api', status: 'operational' as const },
      { name: 'database', status: (await isReachable(db)) ? ('operational' as const) : ('full_outage' as const) },
      { name: 'browsers', status: browsersWork() ? ('operational' as const) : ('degraded_performance' as const) },
      // Nothing new is begun while it is full.
      { name: 'disk', status: disk.room.problem === undefined ? ('operational' as const) : ('partial_outage' as const) },
    ]
    const status = components.find((component) => component.status !== 'operational')?.status ?? 'operational'
    return { status, groups: [{ name: 'cob', status, components }] }
  },
  getMetrics: async () => metrics.render(await countByState(db), openSockets(), disk.room),
  getOpenapi: () => openapiText,
})
