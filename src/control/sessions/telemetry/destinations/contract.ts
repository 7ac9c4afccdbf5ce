// The contract of telemetry destinations: collectors that take OTLP over HTTP, for all projects.
import * as z from 'zod'
import { isId } from '../../../../base/ids.ts'
import { json, nameQuery, none, page, pagingQuery, route } from '../../../../http/route.ts'
import { Time } from '../../../apps/apps/contract.ts'

const group = 'Telemetry Destinations'

const MAX_NAME = 255
const Name = z
  .string()
  .trim()
  .min(1)
  .refine((name) => Array.from(name).length <= MAX_NAME, `must have at most ${MAX_NAME} characters`)
  .refine((name) => !/\p{Cc}/u.test(name), 'must have no control characters')
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

const Description = z.string().max(1024)

/** The problem of an endpoint that its text alone shows. */
function problemOfEndpoint(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL'
  if (url.username || url.password) return 'must have no user and password; give them as a header'
  // A "?" or "#" at the end is not a query, but the path of a signal would be appended after it.
  if (/[?#]/.test(text)) return 'must have no query and no fragment'
  if (/\/v1\/(logs|traces|metrics)\/*$/i.test(url.pathname)) return 'must be without the path of a signal (/v1/logs, /v1/traces, /v1/metrics): it is added'
  return undefined
}

/** The path of a signal is appended. A slash at the end is removed. */
const Endpoint = z
  .string()
  .max(2048)
  .superRefine((text, context) => {
    const problem = problemOfEndpoint(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })
  .transform((text) => new URL(text).href.replace(/\/+$/, ''))

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const HeaderName = z.string().regex(TOKEN, "must be the name of an HTTP header: letters, digits and any of !#$%&'*+.^_`|~-")
/** Printable ASCII; spaces and tabs only inside. */
const HeaderValue = z.string().regex(/^([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?$/, 'must be printable ASCII characters, without spaces at its ends')
/** More than a destination can have; the limit on their bytes applies first (headers.ts). */
const MOST_HEADERS = 1024
const few = (headers: object): boolean => Object.keys(headers).length <= MOST_HEADERS
const TOO_MANY = `must have at most ${MOST_HEADERS} headers`

export const TelemetryDestination = z.object({
  id: z.string(),
  name: z.string(),
  endpoint: z.string(),
  description: z.string().optional(),
  /** Names only: each value is shown as an empty text. */
  headers: z.record(z.string(), z.string()),
  consecutive_failures: z.int(),
  /** The kind of the last failure. It stays after a success. */
  last_error: z.string().optional(),
  last_error_at: Time.optional(),
  last_export_at: Time.optional(),
  created_at: Time,
  updated_at: Time,
})
export type TelemetryDestination = z.output<typeof TelemetryDestination>

const Create = z.strictObject({
  name: Name,
  endpoint: Endpoint,
  description: Description.optional(),
  headers: z.record(HeaderName, HeaderValue).refine(few, TOO_MANY).optional(),
})
export type CreateDestination = z.output<typeof Create>

const Update = z.strictObject({
  name: Name.optional(),
  /** An endpoint on another host or port needs all present headers again: new values, or null. */
  endpoint: Endpoint.optional(),
  /** Empty removes it. */
  description: Description.optional(),
  /** Merged into the present headers, by name. null removes one. */
  headers: z.record(HeaderName, HeaderValue.nullable()).refine(few, TOO_MANY).optional(),
})
export type UpdateDestination = z.output<typeof Update>

const PATH = '/telemetry/destinations'
const params = z.strictObject({ id_or_name: z.string().min(1) })

export const telemetryDestinations = {
  createTelemetryDestination: route({
    method: 'POST',
    path: PATH,
    id: 'createTelemetryDestination',
    right: 'own',
    group,
    summary: 'Create a destination for telemetry',
    body: Create,
    reply: json(TelemetryDestination, 201),
    faults: ['forbidden', 'conflict'],
  }),
  listTelemetryDestinations: route({
    method: 'GET',
    path: PATH,
    id: 'listTelemetryDestinations',
    group,
    summary: 'List destinations of telemetry, newest first',
    query: z.strictObject({
      ...pagingQuery,
      /** `query` also searches endpoints. */
      ...nameQuery,
    }),
    reply: page(TelemetryDestination),
  }),
  getTelemetryDestination: route({
    method: 'GET',
    path: `${PATH}/{id_or_name}`,
    id: 'getTelemetryDestination',
    group,
    summary: 'Get a destination of telemetry',
    params,
    reply: json(TelemetryDestination),
    faults: ['not_found'],
  }),
  updateTelemetryDestination: route({
    method: 'PATCH',
    path: `${PATH}/{id_or_name}`,
    id: 'updateTelemetryDestination',
    right: 'own',
    group,
    summary: 'Change a destination of telemetry; sessions that export to it take the change',
    params,
    body: Update,
    reply: json(TelemetryDestination),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
  deleteTelemetryDestination: route({
    method: 'DELETE',
    path: `${PATH}/{id_or_name}`,
    id: 'deleteTelemetryDestination',
    right: 'own',
    group,
    summary: 'Delete a destination of telemetry that no session uses',
    params,
    reply: none(),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
}
