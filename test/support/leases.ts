// Leases as one of several replicas has them, without a database: it has every duty, may take nothing over, and reads rows instead of trusting its memory.
import { newId } from '../../src/base/ids.ts'
import { alone, type Leases } from '../../src/store/leases.ts'

export const sharing = (): Leases => ({ ...alone(newId()), mayTakeOver: false, handsOver: true, remembered: () => undefined, catchUp: (work) => work() })
