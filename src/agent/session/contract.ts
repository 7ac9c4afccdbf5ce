// The agent's own calls, for the control plane only: fit the browser to a session, watch it, connect to it.
import * as z from 'zod'
import { json, lines, none, route } from '../../http/route.ts'
import { ExtensionName, MAX_EXTENSIONS } from '../extensions/contract.ts'
import { TelemetryFit } from '../telemetry/contract.ts'

/** The size of a display in pixels and its refresh rate in Hz. */
export const Viewport = z.object({ width: z.number(), height: z.number(), refresh_rate: z.number() })
export type Viewport = z.infer<typeof Viewport>

const ProxyFit = z.strictObject({
  on: z.boolean(),
  /** The key of the links that connections use from now on; connections over a link of another key end. The service adds it. */
  links: z
    .string()
    .regex(/^[\w-]{16,64}$/)
    .optional(),
  /**
   * Hosts, in Chromium's form for exceptions, to which the browser connects without a proxy: the API, and the session's private hosts. The service adds them.
   */
  direct: z.array(z.string().max(300)).max(48).optional(),
  /** Certificates of authorities in PEM that the browser trusts while it uses the proxy, which signs the answers of sites with them. The service adds them. */
  authorities: z.string().max(2_200_000).optional(),
})
export type ProxyFit = z.infer<typeof ProxyFit>

/** The settings of a session for a running browser. Absent fields stay unchanged. */
export const Fit = z.strictObject({
  viewport: Viewport.optional(),
  /** The page fills the screen: no tabs, no address bar. */
  fullscreen: z.boolean().optional(),
  start_url: z.string().optional(),
  /** The session's timeout: how long the instance may run without a service that watches it, plus its grace period. */
  timeout_seconds: z.number().min(0).max(1_000_000).optional(),
  /** Managed policies; a change restarts Chromium, because many of them are read only at its start. */
  chrome_policy: z.record(z.string(), z.unknown()).optional(),
  /** Changes that hide automation from pages and cannot be on for every session. It restarts Chromium. */
  stealth: z.literal(true).optional(),
  /** The time zone for pages, as an IANA name; empty: the initial one of the session. The service knows it from the proxy. */
  time_zone: z
    .string()
    .regex(/^(?:[A-Za-z0-9_+-]+(?:\/[A-Za-z0-9_+-]+){0,2})?$/)
    .max(64)
    .optional(),
  /** Whether the browser uses the proxy that the service offers by its links. */
  proxy: ProxyFit.optional(),
  /** Releases all keys and buttons that are down, and Caps Lock: for the next caller of a pool's browser. */
  let_go: z.literal(true).optional(),
  /** Extensions that are already unpacked in the session, to be loaded in addition to earlier ones. */
  extensions: z.array(ExtensionName).max(MAX_EXTENSIONS).optional(),
  /** The telemetry to capture from now on, in place of the earlier setting. */
  telemetry: TelemetryFit.optional(),
})
export type Fit = z.infer<typeof Fit>

/** The version of an agent, and its capabilities (capabilities.ts): names of at most 100 characters. */
const AgentVersion = { version: z.string().max(100), capabilities: z.array(z.string().max(100)).max(1000) }

export const AgentStatus = z.object({
  ...AgentVersion,
  chromium: z.object({ version: z.string().max(256), pid: z.int().min(1), restarts: z.int().min(0) }),
  viewport: Viewport,
  uptime_ms: z.int().min(0),
})
export type AgentStatus = z.infer<typeof AgentStatus>

/** Limit on the detail of an event, in characters. It tells how Chromium ended, in some twenty. */
const MAX_DETAIL = 16 * 1024

/** One line of the watch stream. `ready` has the capabilities of the agent; the first versions did not send them. */
export const AgentEvent = z.object({
  event: z.enum(['ready', 'chromium_crashed', 'chromium_restarted', 'chromium_given_up', 'heartbeat']),
  detail: z.string().max(MAX_DETAIL).optional(),
  version: AgentVersion.version.optional(),
  capabilities: AgentVersion.capabilities.optional(),
})
export type AgentEvent = z.infer<typeof AgentEvent>

/**
 * Work that keeps a session awake while no caller uses it: a program of its caller, a recording, a watch of files, a running download, a restart of Chromium
 * after a crash.
 */
export const SessionActivity = z.object({ running: z.array(z.enum(['process', 'recording', 'file_watch', 'download', 'recovery'])).max(8) })
export type SessionActivity = z.infer<typeof SessionActivity>

/** The answers for clients of DevTools' HTTP interface. The texts come from pages and are cut to these lengths. */
export const DevTools = z.object({
  version: z.object({
    product: z.string().max(256),
    protocolVersion: z.string().max(256),
    revision: z.string().max(256),
    userAgent: z.string().max(1024),
    jsVersion: z.string().max(256),
  }),
  targets: z
    .array(z.object({ id: z.string().regex(/^[\w-]{1,64}$/), type: z.string().max(64), title: z.string().max(1024), url: z.string().max(8192) }))
    .max(1000),
})
export type DevTools = z.infer<typeof DevTools>

/** Chromium's own description of CDP: 1.5 MB for version 156. */
export const MAX_CDP_PROTOCOL_BYTES = 8 * 1024 * 1024
export const CdpProtocol = z.object({ version: z.object({ major: z.string().max(16), minor: z.string().max(16) }), domains: z.array(z.unknown()).max(1000) })

/** The paths of the agent's WebSockets for the browser: CDP of the whole browser, CDP of one page, BiDi; and of links of its proxy, which carry plain bytes. */
export const SOCKETS = { links: '/session/links/{key}', cdp: '/session/cdp', cdpPage: '/session/cdp/{target}', bidi: '/session/bidi' } as const

/** The paths of the same WebSockets in the public API, by session. The agent serves them too, to programs inside the session. */
export const PUBLIC_SOCKETS = { cdp: '/browsers/{id}/cdp', cdpPage: '/browsers/{id}/cdp/devtools/page/{target}', bidi: '/browsers/{id}/bidi' } as const

export const session = {
  devTools: route({
    method: 'GET',
    path: '/session/devtools',
    id: 'devTools',
    group: 'Agent',
    summary: 'Get the version and the pages of Chromium',
    reply: json(DevTools),
  }),
  cdpDescription: route({
    method: 'GET',
    path: '/session/cdp-protocol',
    id: 'cdpDescription',
    group: 'Agent',
    summary: 'Get the description of CDP that Chromium has of itself',
    reply: json(CdpProtocol),
  }),
  agentStatus: route({
    method: 'GET',
    path: '/session/status',
    id: 'agentStatus',
    group: 'Agent',
    summary: 'Get the status of the browser',
    reply: json(AgentStatus),
  }),
  beginSession: route({
    method: 'POST',
    path: '/session/begin',
    id: 'beginSession',
    group: 'Agent',
    summary: 'Start the browser of a prepared instance',
    reply: none(),
  }),
  sessionActivity: route({
    method: 'GET',
    path: '/session/activity',
    id: 'sessionActivity',
    group: 'Agent',
    summary: 'Get what goes on in the session without a caller',
    reply: json(SessionActivity),
  }),
  dismissClients: route({
    method: 'POST',
    path: '/session/dismiss',
    id: 'dismissClients',
    group: 'Agent',
    summary: "End the connections of all clients, and their calls of the session's tools",
    reply: none(),
  }),
  fitSession: route({
    method: 'POST',
    path: '/session/fit',
    id: 'fitSession',
    group: 'Agent',
    summary: 'Configure the running browser for a session',
    body: Fit,
    maxBodyBytes: 8 * 1024 * 1024,
    reply: none(),
  }),
  watchSession: route({
    method: 'GET',
    path: '/session/watch',
    id: 'watchSession',
    group: 'Agent',
    summary: 'Stream the events of the browser as JSON lines, until the agent exits',
    deadlineMs: 2_147_483_647,
    reply: lines(AgentEvent),
  }),
}

/** The capability (agent/capabilities.ts) to fit a browser to one setting of {@link Fit}. */
export const fitting = (setting: string): string => `${session.fitSession.id}.${setting}`
