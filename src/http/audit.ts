// What the audit log is told of an authenticated request: who, what, from where, with which result. Never a query, a body or a credential.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import type { BlockList } from 'node:net'
import { bearer } from './bearer.ts'
import { clientAddress } from './client-address.ts'
import { pathOf, withoutSecret } from './request-path.ts'
import type { ByKey } from './route.ts'

/** Who has made a request: known as soon as its credential has been checked, also when it is refused after that. */
export interface Caller {
  by: ByKey | { kind: 'session'; id: string } | { kind: 'link'; id: string }
  /** The project in effect. Undefined while it is not known. */
  project?: string | undefined
}

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
  /** Until the answer began, in milliseconds. */
  durationMs: number
  domain: string
  clientIp: string
  userAgent: string
}

/** The status of a request that is not answered yet, or whose service died before its result was stored. */
export const PENDING = 0

/** The entry of a request that changes something. */
export interface Begun {
  /** Resolves when the entry is stored, which the answer waits for. Undefined when it cannot be stored for now. */
  stored: Promise<void> | undefined
  /** Adds the result, which is stored a little later. */
  end(status: number, durationMs: number): void
}

export interface Audit {
  /** Takes the entry of a request that is answered, and stores it a little later. */
  note(entry: AuditEntry): void
  /** Begins to store the entry of a request that changes something, while the request is handled. */
  begin(entry: AuditEntry): Begun
}

/** The log, and what {@link entryOf} has to know about the server. */
export interface AuditSettings {
  log: Audit
  /** Reverse proxies that are believed when they say who their client is. */
  trustedProxies: BlockList
  /** Paths below these have a secret as their next segment. */
  secretsBelow: readonly string[]
}

const MAX_PATH = 1024
const MAX_AGENT = 512
/** Our own keys and tokens, wherever a caller has written them. */
const SECRETS = /cob_[0-9a-f]{40}|eyJ[\w-]+\.[\w-]+\.[\w-]+/g

export function entryOf(
  raw: IncomingMessage,
  caller: Caller,
  outcome: Pick<AuditEntry, 'route' | 'status' | 'durationMs'>,
  { trustedProxies, secretsBelow }: AuditSettings,
): AuditEntry {
  const shown = bearer(raw)
  const clean = (text: string, longest: number) => {
    const own = shown === undefined ? text : text.replaceAll(shown, '…')
    return own.replaceAll(SECRETS, '…').slice(0, longest)
  }
  const host = raw.headers.host ?? ''
  return {
    at: new Date(Date.now() - outcome.durationMs),
    by: caller.by,
    project: caller.project,
    method: raw.method!,
    path: clean(withoutSecret(pathOf(raw), secretsBelow), MAX_PATH),
    route: outcome.route,
    status: outcome.status,
    durationMs: Math.round(outcome.durationMs),
    domain: /^[\w.:[\]-]{1,255}$/.test(host) ? host : '',
    clientIp: clientAddress(raw, trustedProxies),
    userAgent: clean(raw.headers['user-agent'] ?? '', MAX_AGENT),
  }
}

/** Begins the entry of a request that is about to be handled. */
export function beginEntry(settings: AuditSettings, request: FastifyRequest, reply: FastifyReply, route: string): void {
  const { caller } = request
  if (caller) request.entry = settings.log.begin(entryOf(request.raw, caller, { route, status: PENDING, durationMs: reply.elapsedTime }, settings))
}

/** The hook before each answer: waits until what changed something is stored, and notes what only read or was refused. */
export const auditHook =
  (settings: AuditSettings) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { caller, entry } = request
    const { statusCode: status, elapsedTime: durationMs } = reply
    if (entry) {
      entry.end(status, durationMs)
      await entry.stored
    } else if (caller) settings.log.note(entryOf(request.raw, caller, { route: request.routeOptions.config.route ?? '', status, durationMs }, settings))
  }

declare module 'fastify' {
  interface FastifyRequest {
    /** Set when the credential of the request has been checked. */
    caller?: Caller
    /** Its entry in the audit log, if it changes something. */
    entry?: Begun
  }
  interface FastifyContextConfig {
    /** Name of the route, for logs and metrics. */
    id?: string
    /** Its path's pattern, for the audit log. */
    route?: string
  }
}
