// The groups by which an operator manages who may do what.
import type { MountContext } from '../../http/mount.ts'
import type { Db } from '../../store/db.ts'

/** What these groups need. */
export interface OrganizationSettings {
  db: Db
}

/** Adds their routes: `mount(context, contract, handlers)` for each group. */
export function mountOrganization(_context: MountContext, _settings: OrganizationSettings): void {}
