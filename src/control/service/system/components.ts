// A hook by which parts of the service report whether they work, for `GET /status`.
import { hook } from '../../module.ts'

export interface Component {
  name: string
  status: 'operational' | 'degraded_performance' | 'partial_outage' | 'full_outage'
}

export const partsOfService = hook<() => Promise<Component>>('how parts of the service are')
