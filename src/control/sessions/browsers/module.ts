// Browsers: opens the parts that make, fit, reach, show and end sessions.
import { sql } from 'kysely'
import { makeForwarder } from '../../../egress/forwarder.ts'
import { fault } from '../../../http/fault.ts'
import type { AcquiredSession, Principal } from '../../../http/route.ts'
import { mountForward } from '../../../http/forward.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { ownTokens } from '../../access/own-tokens.ts'
import { projects } from '../../access/projects/module.ts'
import { defineModule, phases, type House } from '../../module.ts'
import { apiHosts, portsOf } from '../../service/addresses.ts'
import { partsOfService } from '../../service/system/components.ts'
import { aliases } from '../../service/system/missing.ts'
import { extensions } from '../extensions/module.ts'
import { profiles } from '../profiles/module.ts'
import { proxies } from '../proxies/module.ts'
import { proxyNaming, timeZoneOfSession, routingOfSession } from '../proxies/references.ts'
import { openTimeZones } from '../proxies/time-zones.ts'
import { telemetry } from '../telemetry/module.ts'
import { watchActivity, type Activity } from './activity.ts'
import { makeBrowsers, type Browsers } from './browsers.ts'
import { cdpHttpEverywhere, cdpHttpHandlers } from './cdp-http.ts'
import { closingText, dismissOwn, onClosing } from './closings.ts'
import { browsers as contract, cdpHttp, SESSION_PATH } from './contract.ts'
import type { EndReason } from './end-step.ts'
import { meterWarmPool, showBrowsers } from './figures.ts'
import { makeFitter, type Fitter } from './fitter.ts'
import { mostWarm } from './fleet/fits-memory.ts'
import { killInstance, removeInstance } from './fleet/endings.ts'
import { headlessKind, leanKind, stealthKind, usualKind } from './fleet/kinds.ts'
import { Fleet } from './fleet.ts'
import { browserHandlers } from './handlers.ts'
import { livePath, pooling, reaching, sessionEnding } from './hooks.ts'
import { atSession, innerPath, instanceApis, reacher } from './instance-apis.ts'
import { OpenCalls } from './open-calls.ts'
import type { LookUp } from './options/look-up.ts'
import { placeOf } from './place.ts'
import { keptBrowser } from './pooled-rows.ts'
import { makePresent, type Present } from './present.ts'
import { endedSessions } from './purge.ts'
import { countByState, countSeats, holdLinks } from './rows.ts'
import { makeSessionProxies, type SessionProxies } from './session-proxies.ts'
import { closeForRestart, closeSockets, sessionSockets, type OpenSockets, type SessionSockets } from './sockets.ts'
import { sessionTokens, type SessionTokens } from './tokens.ts'
import { watched } from './watched.ts'

interface BrowsersPart {
  browsers: Browsers
  fleet: Fleet
  fitter: Fitter
  present: Present
  sockets: SessionSockets
  tokens: SessionTokens
  lookUp: LookUp
  calls: OpenCalls
  activity: Activity
  /** Ends the calls and connections of a caller who gives a browser back, here and at other replicas. */
  dismiss(session: AcquiredSession): Promise<void>
}

export const browsers = defineModule<BrowsersPart>({
  name: 'browsers',
  contracts: [contract, cdpHttp, instanceApis],
  sealed: [
    sealedColumn('browsers', 'endpoint', {
      value: sql`decode(endpoint->>'sealed', 'base64')`,
      stored: (bytes) => sql`jsonb_set(endpoint, '{sealed}', to_jsonb(${bytes.toString('base64')}::text))`,
      purpose: 'endpoints',
    }),
  ],
  duties: ['warm_pool'],
  purges: ({ db, scope, config }) => [endedSessions(db, scope, config.keepEndedDays)],
  holdings: [{ called: 'live browsers', isAtWork: true, table: 'browsers', isOver: sql`state = 'deleted'`, keeps: sql`deleted_at is null` }],
  counts: { sessions: countSeats },
  async open(house) {
    const { db, scope, leases, keys, endpoints, config, log } = house
    const { standby } = house.of(watched)
    const openSockets: OpenSockets = new Map()
    const calls = new OpenCalls()
    const sessionProxies = await openSessionProxies(house)
    const fleet = makeFleet(house, { openSockets, calls, sessionProxies })
    const activity = watchActivity(db, fleet, log)
    const tokens = sessionTokens(keys.root.secret)
    const path = house.ask(livePath)
    const pools = house.ask(pooling)
    const settings = {
      db,
      scope,
      fleet,
      endpoints,
      calls,
      activity,
      uses: standby,
      lookUp: lookUpOf(house),
      profiles: house.of(profiles),
      sessionProxies,
      telemetry: house.of(telemetry).followers,
      place: placeOf(config),
      maxBrowsers: config.maxBrowsers,
      log,
    }
    const fitter = makeFitter(settings)
    const present = makePresent({ ...settings, tokens, livePath: (row, access) => path()(row, access), poolNames: (ids) => pools().names(ids) })
    const rules = makeBrowsers({ ...settings, fitter, present })
    const sockets = sessionSockets(rules, tokens, openSockets, log)
    house.fill(reaching, rules.reach)
    const bySession = async (token: unknown, idOrName: string): Promise<Principal> => {
      const session = await tokens.check(token, idOrName, rules)
      const project = await rules.projectOf(session.id)
      // Tokens of ended sessions are not valid, and their requests are not in the audit log.
      if (project === undefined) throw fault.notFound('browser', idOrName)
      return { by: { kind: 'session', ...session }, project }
    }
    house.fill(ownTokens, {
      access: 'session',
      read({ query, id }) {
        const { jwt } = query as { jwt?: unknown }
        return jwt === undefined ? undefined : bySession(jwt, id)
      },
    })
    mountBrowsers(house, rules, fleet)
    house.upgrade(sockets.handlers)
    house.fill(aliases, { prefix: SESSION_PATH, means: '/browsers' })
    house.fill(partsOfService, async () => ({ name: 'browsers', status: fleet.filling.isWell ? 'operational' : 'degraded_performance' }))
    hearReplicas(house, fleet, openSockets, calls)
    house.fill(phases.takeOver, async () => {
      await fleet.adopt()
      house.use(activity.watch())
    })
    house.fill(phases.settle, () => fleet.endLost())
    house.fill(phases.start, () => fleet.refill())
    house.fill(phases.stop, () => fleet.stop())
    house.fill(phases.leave, () => closeForRestart(openSockets))
    return {
      browsers: rules,
      fleet,
      fitter,
      present,
      sockets,
      tokens,
      lookUp: settings.lookUp,
      calls,
      activity,
      async dismiss(session) {
        dismissOwn(session, openSockets, calls)
        await leases.tell('closing', closingText(session.id, 'released', session.lease))
      },
    }
  },
})

async function openSessionProxies(house: House): Promise<SessionProxies> {
  const { db, scope, driver, leases, config, log } = house
  const all = house.of(proxies)
  return house.use(
    makeSessionProxies({
      forwarder: house.use(makeForwarder({ allowHostLoopback: config.allowHostLoopback, logLevel: config.logLevel, log })),
      uses: house.of(watched).standby,
      leases,
      holdLinks: (id) => holdLinks(db, id, leases),
      directWays: driver.directWays,
      routingOf: routingOfSession(all),
      timeZoneOf: config.geoipFile === undefined ? undefined : timeZoneOfSession(all, await openTimeZones(config.geoipFile)),
      find: (id) => keptBrowser(db, scope, id),
      apiHosts: () => apiHosts(config.publicUrl),
      log,
    }),
  )
}

interface FleetParts {
  openSockets: OpenSockets
  calls: OpenCalls
  sessionProxies: SessionProxies
}

function makeFleet(house: House, { openSockets, calls, sessionProxies }: FleetParts): Fleet {
  const { leases, config, metrics } = house
  const { registry, standby } = house.of(watched)
  const { followers } = house.of(telemetry)
  const pools = house.ask(pooling)
  const mostReady = mostWarm(config)
  const tellClosing = (id: string, reason: EndReason) => leases.tell('closing', closingText(id, reason))
  const steps = house.all(sessionEnding)
  return new Fleet({
    ...house,
    maxSessions: config.maxBrowsers,
    projectSeats: house.of(projects).caps.sessions,
    registry,
    kinds: [stealthKind(mostReady), headlessKind(mostReady), leanKind(mostReady), usualKind(config.warmBrowsers, mostReady)],
    mostReady,
    meter: meterWarmPool(metrics.registry),
    pools: {
      plan: (id) => pools().plan(id),
      made: (id, error) => pools().made(id, error),
    },
    endSteps: () => [
      standby.wakeStep,
      calls.step,
      closeSockets(openSockets, tellClosing),
      ...steps,
      sessionProxies.forget,
      killInstance(registry),
      removeInstance(registry),
    ],
    onTaken({ id, agent }) {
      sessionProxies.restore(id, agent)
      followers.lookSoon()
    },
    onLinksLost: ({ id, agent }) => sessionProxies.restore(id, agent),
    hasRoom: () => house.disk.room.problem === undefined,
    apiPorts: () => portsOf(house.serving.bound().port, config.publicUrl),
  })
}

/** Replaces names in options by ids, and finds the files and settings that a browser needs. */
function lookUpOf(house: House): LookUp {
  const nameProxy = proxyNaming(house.of(proxies))
  const { nameDestination } = house.of(telemetry)
  const { choose } = house.of(extensions)
  return async (project, given) => ({
    options: await nameDestination(await nameProxy(project, given)),
    brought: await choose(project, given.extensions),
  })
}

function mountBrowsers(house: House, browsers: Browsers, fleet: Fleet): void {
  const { db, metrics } = house
  house.mount(contract, browserHandlers(browsers))
  for (const each of cdpHttpEverywhere) house.mount(each, cdpHttpHandlers(browsers))
  for (const tools of [instanceApis, atSession(instanceApis)]) house.serve((context) => mountForward(context, tools, reacher(browsers), innerPath))
  showBrowsers(
    metrics.registry,
    () => countByState(db, fleet.replica),
    () => fleet.pools.state,
  )
}

/** Handles the notices of other replicas. */
function hearReplicas(house: House, fleet: Fleet, openSockets: OpenSockets, calls: OpenCalls): void {
  const { registry } = house.of(watched)
  house.use({ [Symbol.dispose]: house.notifier.on('look', (text) => fleet.onNotice(text)) })
  house.use({ [Symbol.dispose]: house.notifier.on('closing', (text) => onClosing(text, openSockets, calls, registry)) })
}
