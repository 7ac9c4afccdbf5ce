// The calls of the API by id, with the types of their contracts. These are types only, so the bundle has no contracts and no zod.
import type { z } from 'zod'
import type { computer } from '../../../src/agent/computer/contract.ts'
import type { curl } from '../../../src/agent/curl/contract.ts'
import type { filesystem } from '../../../src/agent/fs/contract.ts'
import type { logs } from '../../../src/agent/logs/contract.ts'
import type { playwright } from '../../../src/agent/playwright/contract.ts'
import type { processes } from '../../../src/agent/process/contract.ts'
import type { telemetry } from '../../../src/agent/telemetry/contract.ts'
import type { apps } from '../../../src/control/apps/apps/contract.ts'
import type { authConnections } from '../../../src/control/logins/auth-connections/contract.ts'
import type { browserPools } from '../../../src/control/sessions/browser-pools/contract.ts'
import type { browsers } from '../../../src/control/sessions/browsers/contract.ts'
import type { credentialProviders } from '../../../src/control/logins/credential-providers/contract.ts'
import type { credentials } from '../../../src/control/logins/credentials/contract.ts'
import type { deployments } from '../../../src/control/apps/deployments/contract.ts'
import type { extensions } from '../../../src/control/sessions/extensions/contract.ts'
import type { invocations } from '../../../src/control/apps/invocations/contract.ts'
import type { oauth } from '../../../src/control/access/oauth/contract.ts'
import type { account } from '../../../src/control/access/account/contract.ts'
import type { apiKeys } from '../../../src/control/access/api-keys/contract.ts'
import type { auditLogs } from '../../../src/control/access/audit-logs/contract.ts'
import type { auditExports } from '../../../src/control/access/audit-logs/exports/contract.ts'
import type { members } from '../../../src/control/access/members/contract.ts'
import type { projects } from '../../../src/control/access/projects/contract.ts'
import type { profiles } from '../../../src/control/sessions/profiles/contract.ts'
import type { proxies } from '../../../src/control/sessions/proxies/contract.ts'
import type { replays } from '../../../src/control/sessions/replays/contract.ts'
import type { signIn } from '../../../src/control/access/sign-in/contract.ts'
import type { system } from '../../../src/control/service/system/contract.ts'
import type { telemetryArchive } from '../../../src/control/sessions/telemetry/contract.ts'
import type { telemetryDestinations } from '../../../src/control/sessions/telemetry/destinations/contract.ts'
import type { Input } from '../../../src/http/client.ts'
import type { Route } from '../../../src/http/route.ts'

type Own = typeof apps &
  typeof authConnections &
  typeof browserPools &
  typeof browsers &
  typeof credentialProviders &
  typeof credentials &
  typeof deployments &
  typeof extensions &
  typeof invocations &
  typeof oauth &
  typeof account &
  typeof apiKeys &
  typeof auditLogs &
  typeof auditExports &
  typeof members &
  typeof projects &
  typeof profiles &
  typeof proxies &
  typeof replays &
  typeof signIn &
  typeof system &
  typeof telemetryArchive &
  typeof telemetryDestinations

/** Calls that a session's agent answers. Their public path also has the session's id. */
type Inside = typeof computer & typeof curl & typeof filesystem & typeof logs & typeof playwright & typeof processes & typeof telemetry

type InsideInput<R extends Route> = Omit<Input<R>, 'params'> & {
  params: z.input<R['params']> extends Record<string, never> ? { id: string } : { id: string } & z.input<R['params']>
}

export type CallId = keyof Own | keyof Inside
type RouteOf<K extends CallId> = K extends keyof Own
  ? Own[K] extends Route
    ? Own[K]
    : never
  : K extends keyof Inside
    ? Inside[K] extends Route
      ? Inside[K]
      : never
    : never

/** The input of a call: `params`, `query` and `body`, as in its route. */
export type InputOf<K extends CallId> = K extends keyof Own ? Input<RouteOf<K>> : InsideInput<RouteOf<K>>

/** The JSON answer of a call. */
export type AnswerOf<K extends CallId> = RouteOf<K>['reply'] extends infer R
  ? R extends { kind: 'json'; schema: infer S extends z.ZodType }
    ? z.output<S>
    : R extends { kind: 'page' | 'tokenPage'; item: infer S extends z.ZodType }
      ? z.output<S>[]
      : undefined
  : never

/** One item of a list. */
export type ItemOf<K extends CallId> = RouteOf<K>['reply'] extends { kind: 'page' | 'tokenPage'; item: infer S extends z.ZodType } ? z.output<S> : never
/** One event of a stream. */
export type EventOf<K extends CallId> = RouteOf<K>['reply'] extends { kind: 'events'; event: infer S extends z.ZodType } ? z.output<S> : never

/** The calls that answer with pages, by offset. */
export type ListId = { [K in CallId]: RouteOf<K>['reply'] extends { kind: 'page' } ? K : never }[CallId]
/** The calls that answer with an event stream. */
export type StreamId = { [K in CallId]: RouteOf<K>['reply'] extends { kind: 'events' } ? K : never }[CallId]
