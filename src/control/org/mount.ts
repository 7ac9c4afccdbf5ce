// The groups by which an operator manages who may do what.
import { mount, type MountContext } from '../../http/mount.ts'
import type { Db } from '../../store/db.ts'
import { account } from './account/contract.ts'
import { accountHandlers, type Limits } from './account/handlers.ts'
import { apiKeys } from './api-keys/contract.ts'
import { apiKeyHandlers } from './api-keys/handlers.ts'

export { watchKeys } from './revocations.ts'

/** What these groups need. */
export interface OrganizationSettings {
  db: Db
  /** What the settings limit. */
  config: Limits
}

/** Adds their routes: `mount(context, contract, handlers)` for each group. */
export function mountOrganization(context: MountContext, { db, config }: OrganizationSettings): void {
  mount(context, apiKeys, apiKeyHandlers(db))
  mount(context, account, accountHandlers(config))
}
