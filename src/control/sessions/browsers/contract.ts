// The contract of the Browsers group.
import * as z from 'zod'
import { CdpProtocol, PUBLIC_SOCKETS } from '../../../agent/session/contract.ts'
import { isId } from '../../../base/ids.ts'
import { bytes, json, none, page, pagingQuery, queryBoolean, route, UNCHANGED } from '../../../http/route.ts'
import { oneWayOut } from '../proxies/contract.ts'
import { refuseStart } from '../network/contract.ts'
import { MAX_POLICY_BYTES, OPTIONS } from './options/contract.ts'
import { createShape, Region, replyShape, updateShape } from './options/option/contract.ts'

/**
 * The prefix of sessions' `base_url`: this and a session's id. No route of the API itself may lie below it: clients send no key to URLs that
 * begin with their `base_url`.
 */
export const SESSION_PATH = '/browser/session'

const group = 'Browsers'

export const Name = z
  .string()
  .min(1)
  .max(255)
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

export const Tags = z.record(z.string().min(1).max(255), z.string().max(1024)).refine((tags) => Object.keys(tags).length <= 50, 'at most 50 tags')

export const CreateBrowser = z
  .strictObject({
    timeout_seconds: z.int().min(10).max(259_200).default(60),
    name: Name.optional(),
    tags: Tags.optional(),
    /** A run of an app that has not ended. The session ends with it. */
    invocation_id: z.string().min(1).max(255).optional(),
    ...createShape(OPTIONS),
  })
  .superRefine(oneWayOut)
  .superRefine(({ network, start_url }, context) => {
    const message = refuseStart(network, start_url)
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['start_url'], message })
  })
export type CreateBrowser = z.output<typeof CreateBrowser>

export const UpdateBrowser = z
  .strictObject({
    /** Empty or null removes the name. */
    name: z.union([Name, z.literal(''), z.null()]).optional(),
    /** Replaces all tags; `{}` or null removes them. */
    tags: Tags.nullable().optional(),
    ...updateShape(OPTIONS),
  })
  .superRefine(oneWayOut)
export type UpdateBrowser = z.output<typeof UpdateBrowser>

const Time = z.iso.datetime()

/** Why a session has ended. Clients get it in the close reasons of their WebSockets, too. docs/operations.md says what each means. */
export const END_REASONS = [
  'deleted',
  'timeout',
  'released',
  'crashed',
  'browser_failed',
  'memory_limit',
  'disk_limit',
  'evicted',
  'node_lost',
  'lost',
  'abandoned',
  'shutdown',
  'surplus',
] as const

export const Browser = z.object({
  session_id: z.string(),
  created_at: Time,
  cdp_ws_url: z.string(),
  webdriver_ws_url: z.string(),
  base_url: z.string().optional(),
  browser_live_view_url: z.string().optional(),
  timeout_seconds: z.int(),
  name: z.string().optional(),
  tags: z.record(z.string(), z.string()).optional(),
  ...replyShape(OPTIONS),
  /** The pool from which the session was acquired. */
  pool: z.object({ id: z.string(), name: z.string().optional() }).optional(),
  usage: z.object({ uptime_ms: z.int() }),
  deleted_at: Time.optional(),
  /** For a session that has ended. */
  end_reason: z.enum(END_REASONS).optional(),
})
export type Browser = z.output<typeof Browser>

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const browsers = {
  createBrowser: route({
    method: 'POST',
    path: '/browsers',
    id: 'createBrowser',
    group,
    summary: 'Create a browser session',
    body: CreateBrowser,
    bodyOptional: true,
    maxBodyBytes: MAX_POLICY_BYTES + 1024 * 1024,
    reply: json(Browser),
    needsRoom: true,
    faults: ['conflict', 'too_many_requests', 'unavailable'],
    deadlineMs: 120_000,
  }),
  listBrowsers: route({
    method: 'GET',
    path: '/browsers',
    id: 'listBrowsers',
    group,
    summary: 'List browser sessions, newest first',
    query: z.strictObject({
      ...pagingQuery,
      status: z.enum(['active', 'deleted', 'all']).optional(),
      include_deleted: queryBoolean.optional(),
      /** Part of the name or the whole id of a session, its profile, its proxy or its pool. Of a pool also part of its name. */
      query: z.string().max(255).optional(),
      /** `tags[k]=v`: all must match. */
      tags: z.record(z.string(), z.string()).optional(),
      region: Region.optional(),
    }),
    reply: page(Browser),
  }),
  getBrowser: route({
    method: 'GET',
    path: '/browsers/{id_or_name}',
    id: 'getBrowser',
    group,
    summary: 'Get a browser session',
    params,
    query: z.strictObject({ include_deleted: queryBoolean.default(false) }),
    reply: json(Browser),
    faults: ['not_found'],
  }),
  getBrowserThumbnail: route({
    method: 'GET',
    path: '/browsers/{id_or_name}/thumbnail',
    id: 'getBrowserThumbnail',
    group,
    summary: 'Get a small picture of the screen, at most a second old. Asking is no use of the session',
    params,
    reply: bytes('image/png', {
      others: { 204: { description: 'There is no picture: the session sleeps, or does not answer.', hasBody: false }, ...UNCHANGED },
    }),
    faults: ['not_found', 'conflict', 'unavailable'],
  }),
  updateBrowser: route({
    method: 'PATCH',
    path: '/browsers/{id_or_name}',
    id: 'updateBrowser',
    group,
    summary: 'Change a browser session',
    params,
    body: UpdateBrowser,
    bodyOptional: true,
    reply: json(Browser),
    faults: ['not_found', 'conflict', 'unavailable'],
    deadlineMs: 120_000,
  }),
  deleteBrowser: route({
    method: 'DELETE',
    path: '/browsers/{id_or_name}',
    id: 'deleteBrowser',
    group,
    summary: 'Delete a browser session',
    params,
    query: z.strictObject({
      wait: queryBoolean
        .default(false)
        .describe(
          'Answer when nothing is left of the session. Otherwise the answer comes when nobody can reach it any more and its processes are signalled to end.',
        ),
    }),
    reply: none(),
    faults: ['not_found'],
  }),
}

const cdpRoute = {
  params: z.strictObject({ id: z.string().min(1) }),
  query: z.strictObject({ jwt: z.string().optional() }),
  group: 'CDP',
  access: 'session',
} as const
const CdpPage = z.object({
  id: z.string(),
  type: z.string(),
  title: z.string(),
  url: z.string(),
  description: z.string(),
  webSocketDebuggerUrl: z.string(),
})

/** DevTools' HTTP interface below the session's CDP address and its `base_url` (cdp-http.ts), for clients that start with an `http://` address. */
export const cdpHttp = {
  cdpVersion: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json/version`,
    id: 'cdpVersion',
    right: 'use',
    summary: 'Get the version of the browser and its CDP address, as Chromium reports them',
    reply: json(
      z.object({
        Browser: z.string(),
        'Protocol-Version': z.string(),
        'User-Agent': z.string(),
        'V8-Version': z.string(),
        'WebKit-Version': z.string(),
        webSocketDebuggerUrl: z.string(),
      }),
    ),
    faults: ['not_found', 'unavailable'],
  }),
  cdpList: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json/list`,
    id: 'cdpList',
    right: 'use',
    summary: 'List the pages of the browser and their CDP addresses, as Chromium reports them',
    reply: json(z.array(CdpPage)),
    faults: ['not_found', 'unavailable'],
  }),
  cdpPages: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json`,
    id: 'cdpPages',
    right: 'use',
    summary: 'List the pages of the browser, like /json/list',
    reply: json(z.array(CdpPage)),
    faults: ['not_found', 'unavailable'],
  }),
  cdpProtocol: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json/protocol`,
    id: 'cdpProtocol',
    right: 'use',
    summary: 'Get the description of CDP that the browser has of itself',
    reply: json(CdpProtocol),
    faults: ['not_found', 'unavailable'],
  }),
}
