// The leases of one of several replicas, without a database: it has every duty, may not take over another replica's work, and reads rows instead of its memory.
import { newId } from '../../src/base/ids.ts'
import { alone, type Leases } from '../../src/store/leases.ts'

export const sharing = (): Leases => ({ ...alone(newId()), mayTakeOver: false, handsOver: true, remembered: () => undefined, catchUp: (work) => work() })
