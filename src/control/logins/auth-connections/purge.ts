// Removes logins and health checks that ended long ago.
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'
import { removeOldFlows } from './flow-rows.ts'

const AT_ONCE = 500

/** Flows that ended more than `days` ago; the last login of each connection stays. */
export const oldFlows = (db: Db, scope: string, days: number): Purge => ({
  what: 'logins and health checks',
  run: (signal) => inBatches(AT_ONCE, signal, (limit) => removeOldFlows(db, scope, days, limit)),
})
