// The audit log's record of an authenticated request: who, what, from where, with which result. Never a query, a body or a credential.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import type { BlockList } from 'node:net'
import { clientAddress } from './client-address.ts'
import { clean, loggedPath } from './request-path.ts'
import type { Caller } from './route.ts'

export type { Caller } from './route.ts'

/** One request, as it is stored. */
export interface AuditEntry {
  at: Date
  by: Caller['by']
  project: string | undefined
  method: string
  /** Without query and secrets, of bounded length. */
  path: string
  /** The pattern of the path. */
  route: string
  /** {@link PENDING} until it is known. */
  status: number
  /** Time until the answer began, in milliseconds. */
  durationMs: number
  domain: string
  clientIp: string
  userAgent: string
}

/** The status of a request that has no answer yet, or whose service died before its result was stored. */
export const PENDING = 0

/** An entry that may get a later result. */
export interface Begun {
  /** A promise that the answer waits for; undefined when there is none. */
  stored: Promise<void> | undefined
  /** Adds the result. */
  end(status: number, durationMs: number): void
}

/** Neither method throws: entries that can be kept outlive the service when the call returns, or when `stored` resolves. */
export interface Audit {
  /** Adds the entry of a request that is about to be answered. The answer may still change: an answer that fails at its beginning is sent again as an error. */
  note(entry: AuditEntry): Begun
  /** Adds the entry of a request that changes something, before it is handled. */
  begin(entry: AuditEntry): Begun
}

/** The log, and what {@link entryOf} needs to know about the server. */
export interface AuditSettings {
  log: Audit
  /** Reverse proxies whose client addresses are trusted. */
  trustedProxies: BlockList
  /** Paths below these have a secret as their next segment. */
  secretsBelow: readonly string[]
}

const MAX_PATH = 1024
const MAX_AGENT = 512
const MAX_HOST = 255

export function entryOf(
  raw: IncomingMessage,
  caller: Caller,
  outcome: Pick<AuditEntry, 'route' | 'status' | 'durationMs'>,
  { trustedProxies, secretsBelow }: AuditSettings,
): AuditEntry {
  const host = raw.headers.host ?? ''
  return {
    at: new Date(Date.now() - outcome.durationMs),
    by: caller.by,
    project: caller.project,
    method: raw.method!,
    path: clean(raw, loggedPath(raw, secretsBelow), MAX_PATH),
    route: outcome.route,
    status: outcome.status,
    durationMs: Math.round(outcome.durationMs),
    domain: /^[\w.:[\]-]{1,255}$/.test(host) ? clean(raw, host, MAX_HOST) : '',
    clientIp: clientAddress(raw, trustedProxies),
    userAgent: clean(raw, raw.headers['user-agent'] ?? '', MAX_AGENT),
  }
}

/** Begins the entry of a request that is about to be handled. */
export function beginEntry(settings: AuditSettings, request: FastifyRequest, reply: FastifyReply, route: string): void {
  const { caller } = request
  if (caller) request.entry = settings.log.begin(entryOf(request.raw, caller, { route, status: PENDING, durationMs: reply.elapsedTime }, settings))
}

/**
 * The hook before each answer: adds the result of a request that changed something, and records requests that only read or were refused. The page of a hosted
 * login requests its state every second: these requests are not recorded.
 */
export const auditHook =
  (settings: AuditSettings) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { caller, entry } = request
    const { statusCode: status, elapsedTime: durationMs } = reply
    if (entry) {
      entry.end(status, durationMs)
      await entry.stored
    } else if (caller && !(caller.by.kind === 'login' && request.method === 'GET' && status < 400))
      request.entry = settings.log.note(entryOf(request.raw, caller, { route: request.routeOptions.config.route ?? '', status, durationMs }, settings))
  }

declare module 'fastify' {
  interface FastifyRequest {
    /** Set when the credential of the request has been checked. */
    caller?: Caller
    /** Its entry in the audit log. */
    entry?: Begun
  }
  interface FastifyContextConfig {
    /** Name of the route, for logs and metrics. */
    id?: string
    /** Its path's pattern, for the audit log. */
    route?: string
  }
}
