// Wires sessions and browser pools: what makes, fits, shows and lends browsers.
import type { Log } from '../../base/log.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { LeasedSession } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import { makeBrowserPools, makePoolSource, type BrowserPools } from './browser-pools/pools.ts'
import { poolNames } from './browser-pools/rows.ts'
import type { Activity } from './browsers/activity.ts'
import { makeBrowsers, type Browsers } from './browsers/browsers.ts'
import { makeFitter, type FitterSettings } from './browsers/fitter.ts'
import type { Fleet } from './browsers/fleet.ts'
import type { PoolSource } from './browsers/fleet/pools.ts'
import type { OpenCalls } from './browsers/open-calls.ts'
import type { LookUp } from './browsers/options/look-up.ts'
import type { Place } from './browsers/options/option/contract.ts'
import { makePoolLeases } from './browsers/pool-leases.ts'
import { makePresent } from './browsers/present.ts'
import type { SessionProxies } from './browsers/session-proxies.ts'
import type { Uses } from './browsers/standby.ts'
import type { Endpoints } from '../../http/stored-endpoint.ts'
import type { SessionTokens } from './browsers/tokens.ts'
import type { LiveLinks } from './live/links.ts'
import type { Profiles } from './profiles/profiles.ts'

interface SessionsSettings {
  db: Db
  scope: string
  fleet: Fleet
  endpoints: Endpoints
  tokens: SessionTokens
  links: LiveLinks
  activity: Activity
  uses: Uses
  calls: OpenCalls
  lookUp: LookUp
  profiles: Profiles
  sessionProxies: SessionProxies
  /** Ends the calls and connections of a caller who gives a browser back, here and at other replicas. */
  dismiss: (session: LeasedSession) => Promise<void>
  stopRecordings: (session: { id: string; endpoint: Endpoint }) => Promise<void>
  /** Hears whether sessions capture telemetry. */
  telemetry: FitterSettings['telemetry']
  place: Place
  maxBrowsers: number
  log: Log
}

export interface Sessions {
  browsers: Browsers
  browserPools: BrowserPools
  poolSource: Omit<PoolSource, 'counts'>
}

export function makeSessions(settings: SessionsSettings): Sessions {
  const { db, fleet, links } = settings
  const fitter = makeFitter(settings)
  const present = makePresent({ ...settings, livePath: links.path, poolNames: (ids) => poolNames(db, ids) })
  const leases = makePoolLeases({ ...settings, fitter, present })
  return {
    browsers: makeBrowsers({ ...settings, fitter, present }),
    browserPools: makeBrowserPools({ ...settings, lending: fleet.lending, leases }),
    poolSource: makePoolSource({ ...settings, fitter }),
  }
}
