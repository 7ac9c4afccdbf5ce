// Values that the parts of a fleet share (types only).
import type { Leases } from '../../../../store/leases.ts'
import type { Endings } from './endings.ts'
import type { Notices } from './notices.ts'
import type { FleetSettings } from './settings.ts'

export interface Shared extends FleetSettings {
  leases: Leases
  endings: Endings
  notices: Notices
  /** Makes the replica with this duty fill the pools. */
  refill: () => void
  /** Aborts when the service stops. */
  signal: AbortSignal
}
