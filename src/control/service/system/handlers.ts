// Handlers of the System contract.
import { Unavailable } from '../../../base/unavailable.ts'
import { known, type Handlers, type Principal } from '../../../http/route.ts'
import { stateOf, type Db } from '../../../store/db.ts'
import type { Component } from './components.ts'
import type { system } from './contract.ts'
import type { Metrics } from './metrics.ts'

const RETRY_SECONDS = 2

interface SystemParts {
  db: Db
  /** The status of the parts of the service. */
  components: () => Promise<Component[]>
  metrics: Pick<Metrics, 'render'>
  /** Refuses keys of a project or an app, because the metrics cover all projects. @throws 403 */
  assertOrganization: (by: Principal) => void
  openapiText: string
}

export const systemHandlers = ({ db, components, metrics, assertOrganization, openapiText }: SystemParts): Handlers<typeof system> => ({
  async getHealth() {
    const state = await stateOf(db)
    if (state !== 'ok') throw new Unavailable(state === 'full' ? 'the database has no space left on its disk' : 'the database does not answer', RETRY_SECONDS)
    return { status: 'ok' }
  },
  async getStatus() {
    const all = await components()
    const status = all.find((component) => component.status !== 'operational')?.status ?? 'operational'
    return { status, groups: [{ name: 'cob', status, components: all }] }
  },
  async getMetrics({ principal }) {
    assertOrganization(known(principal))
    return metrics.render()
  },
  getOpenapi: () => openapiText,
})
