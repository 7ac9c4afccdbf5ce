// Fits a browser to the options of its session: the settings of its agent, and the steps before and after them.
import { fitting, session, type Fit } from '../../../agent/session/contract.ts'
import type { Log } from '../../../base/log.ts'
import { call } from '../../../http/client.ts'
import { assertOffered, type Endpoint } from '../../../http/endpoint.ts'
import type { AcquiredSession } from '../../../http/route.ts'
import { USUAL_MAX_SCREEN } from '../../../instances/driver.ts'
import type { CreateBrowser } from './contract.ts'
import type { Fleet } from './fleet.ts'
import type { ReadyState } from './fleet/kinds.ts'
import { OPTIONS } from './options/contract.ts'
import type { Brought } from './options/look-up.ts'
import type { Place, Refusal } from './options/option/contract.ts'
import { optionRules } from './options/rules.ts'
import type { BrowserOptions, BrowserRow } from './rows.ts'
import type { Chosen, SessionProfiles } from './session-profiles.ts'
import type { SessionProxies } from './session-proxies.ts'
import type { Endpoints } from '../../../http/stored-endpoint.ts'

/** Timeout for fitting: a policy restarts Chromium; everything else takes milliseconds. */
export const FIT_MS = 30_000
/** The same for a warm browser. If it hangs, it is replaced, so its caller should not wait for half a minute. */
export const WARM_FIT_MS = 10_000
/** Limit on sending a browser the files that its options name: 20 extensions of the largest size, on a busy machine. */
const BRING_MS = 60_000

/** The rules that follow from the list of options. */
export const browserRules = optionRules(OPTIONS)

/**
 * The options of a new browser as its row stores them. A viewport above the usual size in either direction needs an X server of its own size, because RandR cannot
 * grow a screen.
 */
export function storedOptions(wanted: Parameters<typeof browserRules.stored>[0], place: Pick<Place, 'headless'>): BrowserOptions {
  const stored = browserRules.stored(wanted)
  const { width, height } = stored.viewport
  const maxScreen = { width: Math.max(width, USUAL_MAX_SCREEN.width), height: Math.max(height, USUAL_MAX_SCREEN.height) }
  const lean = stored.headless && place.headless !== 'full' && browserRules.needsFull(wanted) === undefined
  return { ...stored, maxScreen, ...(lean && { lean }) }
}

/** Why this service refuses a create; undefined when it does not. */
export function refuseCreate(wanted: Parameters<typeof browserRules.stored>[0], place: Place): Refusal | undefined {
  const needsFull = place.headless === 'lean' && wanted.headless ? browserRules.needsFull(wanted) : undefined
  if (needsFull !== undefined)
    return { field: needsFull, problem: 'needs the full browser, and headless sessions of this service are lean (COB_HEADLESS=lean)' }
  return browserRules.refuseCreate(wanted, place)
}

export interface FitterSettings {
  fleet: Pick<Fleet, 'registry'>
  endpoints: Endpoints
  profiles: SessionProfiles
  sessionProxies: SessionProxies
  /** Learns whether a session captures telemetry from now on. */
  telemetry: { noted(session: { id: string; isOn: boolean }): void }
  log: Log
}

/** The wanted state of a new browser. */
export interface Configuration {
  wanted: Partial<CreateBrowser>
  brought: Brought | undefined
  profile: Chosen | undefined
  /** The present state of the browser. */
  state: ReadyState
}

export interface Fitter {
  /** The address of a session's agent. */
  at(row: BrowserRow): AcquiredSession & { endpoint: Endpoint }
  /** @throws fault.conflict when the agent is of an older version and lacks one of the settings. */
  assertFits(row: BrowserRow, wanted: Fit): void
  /** Resolves when the settings have taken effect. */
  fit(row: BrowserRow, wanted: Fit, signal: AbortSignal, ms?: number): Promise<void>
  /** Applies the list of allowed hosts in the session's row, also when the caller disconnects. Neither the browser nor a client of it can prevent that. */
  allow(row: BrowserRow): Promise<void>
  /**
   * Gives a browser that has just become a session its timeout, which the agent applies when no service runs, together with other settings. Without other
   * settings, it does not wait.
   */
  fitNew(row: BrowserRow, wanted: Fit, signal: AbortSignal, ms?: number): Promise<void>
  /**
   * Configures a new browser completely: its proxy, its profile, the files of its options, and at the end the other settings. `ms` limits each call that is
   * usually short. Returns the columns of its row that this has changed.
   */
  configure(
    row: BrowserRow,
    how: Configuration,
    last: (rest: Fit, ms: number) => Promise<void>,
    signal: AbortSignal,
    ms?: number,
  ): Promise<Awaited<ReturnType<SessionProfiles['load']>> | undefined>
}

export function makeFitter({ fleet, endpoints, profiles, sessionProxies, telemetry, log }: FitterSettings): Fitter {
  const at = (row: BrowserRow) => ({ id: row.id, lease: row.lease, endpoint: endpoints.open(row.endpoint!, row.id) })

  const assertFits: Fitter['assertFits'] = ({ id }, wanted) => {
    const endpoint = fleet.registry.endpointOf(id)
    if (endpoint) for (const setting of Object.keys(wanted)) assertOffered(endpoint, fitting(setting))
  }

  const fit: Fitter['fit'] = async (row, wanted, signal, ms = FIT_MS) => {
    if (Object.keys(wanted).length === 0) return
    assertFits(row, wanted)
    const agent = at(row).endpoint
    const limit = AbortSignal.any([signal, AbortSignal.timeout(ms)])
    const tell = (body: Fit) => call(agent, session.fitSession, { body }, { signal: limit })
    if (wanted.proxy) await sessionProxies.fitted(row, agent, (proxy) => tell({ ...wanted, ...proxy }), limit)
    else await tell(wanted)
    if (wanted.telemetry) telemetry.noted({ id: row.id, isOn: wanted.telemetry.categories.length > 0 })
  }

  return {
    at,
    assertFits,
    fit,
    allow: (row) => sessionProxies.allow(row, at(row).endpoint, AbortSignal.timeout(FIT_MS)),
    async fitNew(row, wanted, signal, ms) {
      const timeout = { timeout_seconds: row.timeout_seconds }
      if (Object.keys(wanted).length > 0) return fit(row, { ...wanted, ...timeout }, signal, ms)
      // A caller that needs no other setting does not wait for this call. If it fails, the browser keeps the timeout of an unclaimed one.
      void fit(row, timeout, AbortSignal.timeout(FIT_MS)).catch((err: unknown) => log.debug({ err, browser: row.id }, 'a session was not told its timeout'))
    },
    async configure(row, { wanted, brought, profile, state }, last, signal, ms = FIT_MS) {
      const { proxy, stealth, chrome_policy: policy, ...rest } = browserRules.fit(wanted as CreateBrowser, state)
      // These come before the profile's pages are opened. Policies restart Chromium, which would open the profile's tabs a second time, beside an empty one.
      const before = { ...(proxy && { proxy }), ...(stealth && { stealth }), ...(policy && profile && { chrome_policy: policy }) }
      await fit(row, before, signal, before.chrome_policy ? FIT_MS : ms)
      // A profile brings its own window, to which all later settings apply. Extensions are loaded into it.
      const loaded = profile && (await profiles.load(at(row), profile, { keepTabs: wanted.start_url === undefined, isUpdate: false }, signal))
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(BRING_MS)])
      const also = await brought?.bring(at(row).endpoint, inTime)
      await last({ ...rest, ...(policy && !profile && { chrome_policy: policy }), ...also }, brought ? FIT_MS : ms)
      return loaded
    },
  }
}
