// What projects hold, of all groups: what keeps one from being deleted, and what its limits count.
import type { Db } from '../../store/db.ts'
import { countConnections, IS_OVER as IS_CONNECTION_OVER } from '../logins/auth-connections/rows.ts'
import { countPools, IS_OVER as IS_POOL_OVER } from '../sessions/browser-pools/rows.ts'
import { countLive, countSeats, IS_OVER as IS_BROWSER_OVER } from '../sessions/browsers/rows.ts'
import { countCredentials, IS_OVER as IS_CREDENTIAL_OVER } from '../logins/credentials/rows.ts'
import { countKept, IS_OVER as IS_DEPLOYMENT_OVER } from '../apps/deployments/rows.ts'
import { countStored, IS_OVER as IS_EXTENSION_OVER } from '../sessions/extensions/rows.ts'
import { countUnfinished, IS_OVER as IS_RUN_OVER } from '../apps/invocations/rows.ts'
import { countProfiles, IS_OVER as IS_PROFILE_OVER } from '../sessions/profiles/rows.ts'
import { countKept as countProxies, IS_OVER as IS_PROXY_OVER } from '../sessions/proxies/rows.ts'
import { makeCaps, type Caps } from './projects/limits.ts'
import type { Holding } from './projects/projects.ts'

/** A new group whose objects live in a project adds a line here. */
export const projectHoldings: readonly Holding[] = [
  { called: 'live browsers', isAtWork: true, count: countLive, table: 'browsers', isOver: IS_BROWSER_OVER },
  { called: 'browser pools', isAtWork: true, count: countPools, table: 'browser_pools', isOver: IS_POOL_OVER },
  { called: 'deployments', isAtWork: false, count: countKept, table: 'deployments', isOver: IS_DEPLOYMENT_OVER },
  { called: 'extensions', isAtWork: false, count: countStored, table: 'extensions', isOver: IS_EXTENSION_OVER },
  { called: 'proxies', isAtWork: false, count: countProxies, table: 'proxies', isOver: IS_PROXY_OVER },
  { called: 'credentials', isAtWork: false, count: countCredentials, table: 'credentials', isOver: IS_CREDENTIAL_OVER },
  { called: 'unfinished invocations', isAtWork: true, count: (tx, project) => countUnfinished(tx, { project }), table: 'invocations', isOver: IS_RUN_OVER },
  {
    called: 'auth connections',
    isAtWork: false,
    count: (tx, project) => countConnections(tx, { project }),
    table: 'auth_connections',
    isOver: IS_CONNECTION_OVER,
  },
  { called: 'profiles', isAtWork: false, count: countProfiles, table: 'profiles', isOver: IS_PROFILE_OVER },
]

export const projectCaps = (db: Db): Caps =>
  makeCaps(db, { sessions: (tx, project) => countSeats(tx, { project }), invocations: (tx, project) => countUnfinished(tx, { project }) })
