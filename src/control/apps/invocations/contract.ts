// The contract of the Invocations group. An invocation is one run of an action of an app.
import * as z from 'zod'
import { bytes, events, json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { MAX_OUTPUT_BYTES } from '../../../runner/contract.ts'
import { ErrorEvent, Heartbeat, LogEvent } from '../apps/contract.ts'
import { Browser } from '../../sessions/browsers/contract.ts'

const group = 'Invocations'

/** The largest payload and the largest output, in bytes of JSON text. */
export const MAX_PAYLOAD_BYTES = MAX_OUTPUT_BYTES
/** The same inside a JSON body: half of a payload may be quotation marks, each with a backslash before it, or characters as `\uXXXX`. */
const MAX_BODY_BYTES = 3 * MAX_PAYLOAD_BYTES + 64 * 1024
/** A synchronous run is ended after {@link SYNC_LIMIT_SECONDS} and then answered. This limit applies when even that fails. */
const SYNC_DEADLINE_MS = 130_000
export const SYNC_LIMIT_SECONDS = 100
const ASYNC_TIMEOUT_SECONDS = 900

const Time = z.iso.datetime()
const Status = z.enum(['queued', 'running', 'succeeded', 'failed'])

export const CreateInvocation = z
  .strictObject({
    app_name: z.string().min(1).max(255),
    action_name: z.string().min(1).max(255),
    /** A label, not a computed maximum. */
    version: z.string().min(1).max(255),
    /** JSON text; empty is none. */
    payload: z.string().optional(),
    async: z.boolean().default(false),
    async_timeout_seconds: z.int().min(10).max(3600).optional(),
  })
  .superRefine((body, context) => {
    if (body.async_timeout_seconds !== undefined && !body.async)
      context.addIssue({ code: 'custom', path: ['async_timeout_seconds'], message: 'is for runs with async: true; the others are held for 100 s' })
  })
  .transform(({ async: isAsync, async_timeout_seconds, payload, ...names }) => ({
    ...names,
    isAsync,
    /** Undefined for a synchronous run: {@link SYNC_LIMIT_SECONDS} applies. */
    timeoutSeconds: isAsync ? (async_timeout_seconds ?? ASYNC_TIMEOUT_SECONDS) : undefined,
    payload: payload || null,
  }))
export type CreateInvocation = z.output<typeof CreateInvocation>

/** The answer to a caller that starts a run. For a synchronous run it has the result. */
export const Started = z.object({
  id: z.string(),
  action_name: z.string(),
  status: Status,
  /** JSON text; absent when the action gave no value. */
  output: z.string().optional(),
  status_reason: z.string().optional(),
})
export type Started = z.output<typeof Started>

export const Invocation = z.object({
  id: z.string(),
  app_name: z.string(),
  action_name: z.string(),
  version: z.string(),
  status: Status,
  started_at: Time,
  finished_at: Time.nullable(),
  payload: z.string().optional(),
  output: z.string().optional(),
  status_reason: z.string().optional(),
})
export type Invocation = z.output<typeof Invocation>

export const StateEvent = z.object({ event: z.literal('invocation_state'), invocation: Invocation, timestamp: Time })

/** A whole id, or an unambiguous prefix of one. */
const params = z.strictObject({ id: z.string().min(1) })

export const invocations = {
  createInvocation: route({
    method: 'POST',
    path: '/invocations',
    id: 'createInvocation',
    group,
    summary: 'Run an action of an app; the response comes when the run ends, or immediately with 202 if it is async',
    body: CreateInvocation,
    maxBodyBytes: MAX_BODY_BYTES,
    reply: bytes('application/json; charset=utf-8', { schema: Started, others: { 202: { description: 'It is async, and has begun.', hasBody: true } } }),
    needsRoom: true,
    faults: ['not_found', 'too_many_requests', 'unavailable'],
    deadlineMs: SYNC_DEADLINE_MS,
  }),
  listInvocations: route({
    method: 'GET',
    path: '/invocations',
    id: 'listInvocations',
    group,
    summary: 'List runs, newest first, without payloads and outputs above 64 KiB',
    query: z.strictObject({
      ...pagingQuery,
      app_name: z.string().max(255).optional(),
      action_name: z.string().max(255).optional(),
      version: z.string().max(255).optional(),
      deployment_id: z.string().max(255).optional(),
      status: Status.optional(),
      /** Started at this time or later: RFC 3339, or an age (`5m`). */
      since: z.string().max(255).optional(),
      /** A prefix of an id, or part of the name of an app or action. */
      query: z.string().max(255).optional(),
    }),
    reply: page(Invocation),
  }),
  getInvocation: route({
    method: 'GET',
    path: '/invocations/{id}',
    id: 'getInvocation',
    group,
    summary: 'Get a run',
    params,
    reply: json(Invocation),
    faults: ['not_found'],
  }),
  updateInvocation: route({
    method: 'PATCH',
    path: '/invocations/{id}',
    id: 'updateInvocation',
    group,
    summary: 'Stop a run and delete its browsers; a run that has ended is returned unchanged',
    params,
    body: z.strictObject({ status: z.enum(['succeeded', 'failed']), output: z.string().optional() }),
    maxBodyBytes: MAX_BODY_BYTES,
    reply: json(Invocation),
    faults: ['not_found'],
  }),
  followInvocation: route({
    method: 'GET',
    path: '/invocations/{id}/events',
    id: 'followInvocation',
    group,
    summary: 'Stream the states and the output of a run until it ends',
    params,
    query: z.strictObject({ since: z.string().max(255).optional() }),
    reply: events(z.discriminatedUnion('event', [StateEvent, LogEvent, ErrorEvent, Heartbeat])),
    faults: ['not_found'],
    deadlineMs: Infinity,
  }),
  listInvocationBrowsers: route({
    method: 'GET',
    path: '/invocations/{id}/browsers',
    id: 'listInvocationBrowsers',
    group,
    summary: 'List the running browsers of a run',
    params,
    reply: json(z.object({ browsers: z.array(Browser) })),
    faults: ['not_found'],
  }),
  deleteInvocationBrowsers: route({
    method: 'DELETE',
    path: '/invocations/{id}/browsers',
    id: 'deleteInvocationBrowsers',
    group,
    summary: 'Delete the browsers of a run',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
}
