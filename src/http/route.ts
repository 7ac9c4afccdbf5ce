// A route is data: one object that the server, the OpenAPI page, clients and tests all read.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import * as z from 'zod'
import type { Log } from '../base/log.ts'
import type { FaultCode } from './fault.ts'
import { NDJSON_TYPE, type EncodedLines } from './ndjson.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Further successful statuses of a route: the meaning of each, and whether its body has the same type as the first. */
export type OtherReplies = Record<number, { description: string; hasBody: boolean }>
export const UNCHANGED: OtherReplies = { 304: { description: 'It is still the one that the If-None-Match header names.', hasBody: false } }
export const PARTIAL: OtherReplies = { 206: { description: 'The part that the Range header asks for.', hasBody: true } }

/** The answer of a route. */
export type Reply =
  | { kind: 'json'; status: number; schema: z.ZodType; none?: string }
  | { kind: 'page'; status: number; item: z.ZodType }
  | { kind: 'tokenPage'; status: number; item: z.ZodType }
  | { kind: 'none'; status: number; hasHeaders?: true }
  | { kind: 'bytes'; status: number; type: string; schema?: z.ZodType; others?: OtherReplies }
  | { kind: 'text'; status: number; type: string }
  | { kind: 'events'; status: number; event: z.ZodType }
  | { kind: 'lines'; status: number; type: string; line: z.ZodType }

/** The form of a body: parsed as JSON, or passed to the handler as a stream, whole or by the parts of a form. */
export type BodyKind = 'json' | 'bytes' | 'form'

/**
 * Who may call a route: `key` needs a bearer key, `public` nothing, `session` a key or the token (`?jwt=`) of the session in the path, `login` a key or, as bearer,
 * the token of a login of the connection in the path.
 */
export type Access = 'key' | 'public' | 'session' | 'login'

export interface Route<P extends z.ZodType = z.ZodType, Q extends z.ZodType = z.ZodType, B extends z.ZodType = z.ZodType, R extends Reply = Reply> {
  method: Method
  /** Placeholders in braces: `/browsers/{id}`. */
  path: string
  /** operationId; also the handler's name. */
  id: string
  /** Heading in the documentation. */
  group: string
  summary: string
  access: Access
  params: P
  query: Q
  /** z.undefined() for routes without a body. */
  body: B
  /** An absent or empty body counts as `{}`. */
  bodyOptional: boolean
  bodyKind: BodyKind
  /** Infinity for bodies that are streamed and never held. */
  maxBodyBytes: number
  reply: R
  /** Forwarding keeps answers that have an `etag`, and sends them again when the agent answers 304. For large answers that seldom change. */
  revalidates: boolean
  /**
   * The answer comes from another site, which the tool called for the caller. When the call is forwarded, the caller's cookies are passed on, and
   * `authorization` as well unless it holds the key for this service. Most of that site's headers are returned.
   */
  relays: boolean
  /**
   * The route only observes a running session: it does not count as a use of the session. Its stream ends without an error when the session ends, or does not
   * belong to the caller any more. It also ends when the stream breaks off for another reason: its reader can continue from there.
   */
  looksOn: boolean
  /** A request changes nothing, so the audit log records it when it is answered, not before. The default is true for GET, and false for other methods. */
  reads: boolean
  /** The right that a caller needs. */
  right: Right
  /** Pages of any origin may call it: their requests carry no cookies, only the credential that their script has. */
  anyOrigin: boolean
  /** The request makes something that uses space on the disk. It is refused with 503 while there is too little space. */
  needsRoom: boolean
  /** Longest time until the answer, body included, has been sent. A caller gets 504 when the answer has not begun by then. Infinity for streams. */
  deadlineMs: number
  /** Error codes of this route in addition to the general ones. */
  faults: readonly FaultCode[]
}

const NO_FIELDS = z.strictObject({})
const NO_BODY = z.undefined()
const DEFAULT_MAX_BODY = 1024 * 1024
const DEFAULT_DEADLINE_MS = 60_000

interface RouteSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends Reply> {
  method: Method
  path: string
  id: string
  group: string
  summary: string
  access?: Access
  params?: P
  query?: Q
  body?: B
  bodyOptional?: boolean
  bodyKind?: BodyKind
  maxBodyBytes?: number
  reply: R
  revalidates?: boolean
  relays?: boolean
  looksOn?: boolean
  reads?: boolean
  right?: Right
  anyOrigin?: boolean
  needsRoom?: boolean
  deadlineMs?: number
  faults?: Route['faults']
}

/** Describes one route; see {@link Route} for the defaults it fills in. */
export function route<R extends Reply, P extends z.ZodType = typeof NO_FIELDS, Q extends z.ZodType = typeof NO_FIELDS, B extends z.ZodType = typeof NO_BODY>(
  spec: RouteSpec<P, Q, B, R>,
): Route<P, Q, B, R> {
  return {
    access: 'key',
    bodyOptional: false,
    bodyKind: 'json',
    maxBodyBytes: DEFAULT_MAX_BODY,
    revalidates: false,
    relays: false,
    looksOn: false,
    reads: spec.method === 'GET',
    right: (spec.reads ?? spec.method === 'GET') ? 'view' : 'use',
    anyOrigin: false,
    needsRoom: false,
    deadlineMs: DEFAULT_DEADLINE_MS,
    faults: [],
    ...spec,
    params: spec.params ?? (NO_FIELDS as unknown as P),
    query: spec.query ?? (NO_FIELDS as unknown as Q),
    body: spec.body ?? (NO_BODY as unknown as B),
  }
}

export function json<S extends z.ZodType>(schema: S, status?: number): { readonly kind: 'json'; readonly status: number; readonly schema: S }
/** `none` is the description of an empty result: the handler returns undefined then, and the answer is a 204. */
export function json<S extends z.ZodType>(
  schema: S,
  status: number,
  none: string,
): { readonly kind: 'json'; readonly status: number; readonly schema: S; readonly none: string }
export function json(schema: z.ZodType, status = 200, none?: string): object {
  return { kind: 'json', status, schema, ...(none !== undefined && { none }) }
}
/** A bare array with paging headers; the handler returns a {@link Page}. */
export const page = <S extends z.ZodType>(item: S) => ({ kind: 'page', status: 200, item }) as const
/** The same for lists that grow at their beginning: the handler returns a {@link TokenPage}. */
export const tokenPage = <S extends z.ZodType>(item: S) => ({ kind: 'tokenPage', status: 200, item }) as const
export const none = (status = 204) => ({ kind: 'none', status }) as const
/** Headers only, such as a cookie: the handler returns them. */
export const onlyHeaders = (status = 204) => ({ kind: 'none', status, hasHeaders: true }) as const
/** The handler returns the bytes and their status. `schema` describes them when they are JSON; `others` are the statuses other than 200. */
export const bytes = (type: string, { schema, others }: { schema?: z.ZodType; others?: OtherReplies } = {}) =>
  ({ kind: 'bytes', status: 200, type, ...(schema && { schema }), ...(others && { others }) }) as const
export const text = (type: string) => ({ kind: 'text', status: 200, type }) as const
/** Server-sent events, each a JSON object. The handler returns an iterable of them, and the stream ends with it. */
export const events = <S extends z.ZodType>(event: S) => ({ kind: 'events', status: 200, event }) as const

/** JSON values, one per line (NDJSON). The handler returns an iterable of them, and the stream ends with it. */
export const lines = <S extends z.ZodType>(line: S) => ({ kind: 'lines', status: 200, type: NDJSON_TYPE, line }) as const

/** A body that is passed on as a stream: `bodyKind: 'bytes'`. */
export const byteStream = z.custom<Readable>()
/** A multipart/form-data body, part by part in order: `bodyKind: 'form'`. */
export const formParts = z.custom<AsyncIterable<FormPart>>()

/** A part of a form. A file's content must be read, or the next part does not arrive. */
export type FormPart = { name: string; value: string } | { name: string; filename: string; content: Readable }

/** Bytes with more metadata than their type: part of a whole (206), a length, a name. */
export interface Bytes {
  body: Uint8Array | Readable
  status?: number
  headers: Record<string, string | string[]>
}

/** One page of a list. `nextOffset` is undefined on the last. */
export interface Page<T> {
  items: T[]
  nextOffset: number | undefined
}

/** One page of a list that is paged by tokens. `nextToken` is undefined on the last. */
export interface TokenPage<T> {
  items: T[]
  nextToken: string | undefined
}

/** Offset paging for every list: default 20. A limit above 100 is reduced to 100, because clients ask for one more than a page. */
export const pagingQuery = {
  offset: z.coerce.number().int().min(0).max(1_000_000_000).default(0),
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000_000_000)
    .default(20)
    .transform((limit) => Math.min(limit, 100)),
}

/** The query of lists of named things: a whole name; a part of one, or a whole id. Case is ignored. */
export const nameQuery = { name: z.string().max(1024).optional(), query: z.string().max(1024).optional() }

/** The largest number in a column of type integer. Every whole number of callers that is stored has this limit or a lower one. */
export const MAX_INTEGER = 2_147_483_647

/** Query booleans arrive as text. */
export const queryBoolean = z.enum(['true', 'false']).transform((text) => text === 'true')

export type Contract = Record<string, Route>

/** The values for the placeholders of a path. */
export type PathParams<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Record<Name, string> & PathParams<Rest> : unknown

/** `path` with its placeholders filled in; each value is encoded as one part of a path. @throws TypeError for a value that is missing or empty */
export function pathTo<P extends string>(path: P, params: PathParams<P>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = (params as Record<string, string | number | boolean> | undefined)?.[name]
    // An empty part would make it the path of another route.
    if (value === undefined || value === '') throw new TypeError(`${path} needs a value for "${name}"`)
    return encodeURIComponent(value)
  })
}

type ReplyValue<R extends Reply> = R extends { kind: 'json'; schema: infer S extends z.ZodType }
  ? R extends { none: string }
    ? z.input<S> | undefined
    : z.input<S>
  : R extends { kind: 'page'; item: infer S extends z.ZodType }
    ? Page<z.input<S>>
    : R extends { kind: 'tokenPage'; item: infer S extends z.ZodType }
      ? TokenPage<z.input<S>>
      : R extends { kind: 'bytes' }
        ? Uint8Array | Readable | Bytes
        : R extends { kind: 'events'; event: infer S extends z.ZodType }
          ? AsyncIterable<z.input<S>>
          : R extends { kind: 'lines'; line: infer S extends z.ZodType }
            ? AsyncIterable<z.input<S> | EncodedLines>
            : R extends { kind: 'text' }
              ? string
              : R extends { hasHeaders: true }
                ? Record<string, string>
                : void

/** The caller and its rights: made for each request by the server's `authenticate`, and nowhere else. */
export interface Principal {
  /** The credential of the caller: a key, a sign-in, or the token of one session or one login. */
  by: ByAccount | ({ kind: 'session' } & AcquiredSession) | { kind: 'login'; /** The id of the flow. */ id: string }
  /** The project in effect: everything that the caller sees and makes is in it. */
  project: string
}

export interface ByKey {
  kind: 'key'
  id: string
  /** The only project for which the key may be used; undefined means all. */
  project: string | undefined
  /** The deployment that the key belongs to: the caller is an app's code in its sandbox. */
  deployment: string | undefined
  /** The sign-in that acts with the key's rights; undefined when the key itself was sent. */
  via?: SignIn | undefined
  /** The highest right that the sign-in was allowed. */
  role?: Role | undefined
}

/** A person who has signed in. */
export interface ByUser {
  kind: 'user'
  id: string
  name: string | null
  email: string | null
  via: SignIn
  /** Their role in the project in effect. */
  role: Role
  /** The highest right that the sign-in was allowed. */
  most?: Role | undefined
  /** Their only project for this request; undefined: their role is for all. As for {@link ByKey}. */
  project: string | undefined
  /** Other projects that they may name. */
  projects: readonly string[]
  deployment: undefined
}

/** A caller that may act without a session: a key, or a person. */
export type ByAccount = ByKey | ByUser

export const isAccount = (by: Principal['by']): by is ByAccount => by.kind === 'key' || by.kind === 'user'

/** A sign-in: of a web browser (a cookie), or of a program that got a token by OAuth. */
export interface SignIn {
  kind: 'dashboard' | 'oauth'
  id: string
  /** The only project for which it was given; undefined means all of its key or person. */
  project?: string | undefined
}

/** The role of a person in a project, or in all of them. */
export const ROLES = ['viewer', 'member', 'owner'] as const
export type Role = (typeof ROLES)[number]

/**
 * The right that a route needs: `view` reads, `use` changes the project's content or gets the means to do so, `own` decides who has access. Each includes those
 * before it.
 */
export const RIGHTS = ['view', 'use', 'own'] as const
export type Right = (typeof RIGHTS)[number]

/** Keys have all rights in their projects; further restrictions are in the calls. Tokens act in their own session or login. */
export const roleOf = ({ by }: Pick<Principal, 'by'>): Role => (by.kind === 'user' ? by.role : by.kind === 'key' ? (by.role ?? 'owner') : 'member')

/** Whether a role includes a right. */
export const includes = (role: Role, right: Right): boolean => ROLES.indexOf(role) >= RIGHTS.indexOf(right)

/** A session. `lease` is the number of its acquisition from its pool (the column `lease`), 0 for one that belongs to no pool. */
export interface AcquiredSession {
  id: string
  lease: number
}

/** The address of a session: its id or name, or the session of a token or a link, which is one caller's time with it. */
export type Called = string | AcquiredSession

/** The session of a call: that of the token, whatever the path names; else the one in the path. */
export const sessionOf = ({ by }: Principal, idOrName: string): Called => (by.kind === 'session' ? { id: by.id, lease: by.lease } : idOrName)

/** The name or id, and the number of the acquisition if it has to match. */
export const calledBy = (called: Called): { idOrName: string; lease: number | undefined } =>
  typeof called === 'string' ? { idOrName: called, lease: undefined } : { idOrName: called.id, lease: called.lease }

/** The principal of a route that is not public. */
export function known(principal: Principal | undefined): Principal {
  if (!principal) throw new Error('a public route has no principal')
  return principal
}

/** The input of a handler: parsed values and a signal, never the request itself. */
export interface Call<P, Q, B> {
  params: P
  query: Q
  body: B
  /** The request's headers, for those that are part of HTTP itself: ranges, conditions, content types. */
  headers: IncomingHttpHeaders
  /** Aborts when the caller leaves or the deadline passes. */
  signal: AbortSignal
  log: Log
  /** Undefined for public routes. */
  principal?: Principal | undefined
  /** The origin by which the caller reached the service, for URLs in answers. */
  origin: string
  /** The caller's address, also through trusted proxies. */
  address: string
  /** For public routes: gives the audit log the caller, once it is known. */
  identified: (caller: Caller) => void
}

/** The caller of a request: known as soon as its credential has been checked, also when the request is refused after that. */
export interface Caller {
  by: ByAccount | { kind: 'session' | 'link' | 'login'; id: string }
  /** The project in effect. Undefined while it is unknown. */
  project?: string | undefined
}

export type Handler<T> =
  T extends Route<infer P, infer Q, infer B, infer R> ? (call: Call<z.output<P>, z.output<Q>, z.output<B>>) => Promise<ReplyValue<R>> | ReplyValue<R> : never
export type Handlers<C extends Contract> = { [K in keyof C]: Handler<C[K]> }
