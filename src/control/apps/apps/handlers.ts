// Handlers of the Apps contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { apps as contract } from './contract.ts'
import { listApps, record } from './rows.ts'

export const appHandlers = (db: Db): Handlers<typeof contract> => ({
  listApps: async ({ principal, query }) => pageOf(await listApps(db, known(principal).project, query), query, record),
})
