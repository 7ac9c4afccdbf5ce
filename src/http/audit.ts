// What the audit log is told of an authenticated request: who, what, from where, with which result. Never a query, a body or a credential.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import type { BlockList } from 'node:net'
import { clientAddress } from './client-address.ts'
import { bearer } from './mount.ts'
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
  status: number
  /** Until the answer began, in milliseconds. */
  durationMs: number
  domain: string
  clientIp: string
  userAgent: string
}

/** Stores an entry. For a request that `changes` something, the result resolves when that is done, and the answer waits for it. */
export type Audit = (entry: AuditEntry, changes: boolean) => Promise<void> | undefined

/** What {@link entryOf} has to know about the server. */
export interface AuditSettings {
  note: Audit
  /** Reverse proxies that are believed when they say who their client is. */
  trustedProxies: BlockList
  /** Paths below these have a secret as their next segment. */
  secretsBelow: readonly string[]
}

const MAX_PATH = 1024
const MAX_AGENT = 512
/** Our own keys and tokens, wherever a caller has written them. */
const SECRETS = /cob_[0-9a-f]{40}|eyJ[\w-]+\.[\w-]+\.[\w-]+/g

export interface Outcome {
  route: string
  status: number
  durationMs: number
}

export function entryOf(raw: IncomingMessage, caller: Caller, outcome: Outcome, { trustedProxies, secretsBelow }: Omit<AuditSettings, 'note'>): AuditEntry {
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

/** The hook that stores each answered request. Its answer begins after it. */
export const auditHook =
  (settings: AuditSettings) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { caller } = request
    if (!caller) return
    const { route = '', changes = false } = request.routeOptions.config
    const entry = entryOf(request.raw, caller, { route, status: reply.statusCode, durationMs: reply.elapsedTime }, settings)
    await settings.note(entry, changes)
  }

declare module 'fastify' {
  interface FastifyRequest {
    /** Set when the credential of the request has been checked. */
    caller?: Caller
  }
  interface FastifyContextConfig {
    /** Name of the route, for logs and metrics. */
    id?: string
    /** Its path's pattern, for the audit log. */
    route?: string
    /** Its requests are written into the audit log before they are answered. */
    changes?: boolean
  }
}
