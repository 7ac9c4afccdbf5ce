// OpenAPI 3.1 from the same route objects that validate requests.
import * as z from 'zod'
import { ErrorModel, STATUS, type FaultCode } from './fault.ts'
import type { Contract, OtherReplies, Reply, Route } from './route.ts'

interface Info {
  title: string
  version: string
  description: string
}

const DESCRIPTIONS: Record<(typeof STATUS)[FaultCode], string> = {
  400: 'The input is wrong; every wrong field is named.',
  401: 'The key is missing or wrong.',
  403: 'The key may not do this.',
  404: 'There is no such thing, or no such project.',
  405: 'The method is not possible here; Allow lists those that are.',
  408: 'The body did not arrive in time.',
  409: 'It conflicts with what is there.',
  410: 'What the token was made for is over.',
  413: 'The body is too large.',
  416: 'The range is outside of the bytes that exist.',
  429: 'Too many at once, or too many requests of this key; Retry-After says when to ask again.',
  499: 'The caller went away.',
  500: 'Something went wrong on our side.',
  502: 'The target of the request did not answer, or not in a way that can be passed on.',
  503: 'The browser or the database does not answer, or has no space left; Retry-After, if it is there, says when to ask again.',
  504: 'It was not done in time.',
}

/** Codes that every route may answer; the second list is for routes that need a key. */
const GENERAL: readonly FaultCode[] = ['bad_request', 'internal_error']
const WITH_KEY: readonly FaultCode[] = ['unauthorized', 'not_found', 'too_many_requests', 'unavailable']

const BODY_TYPE = { json: 'application/json', bytes: 'application/octet-stream', form: 'multipart/form-data' }

/** The document for `contracts`. Pure: the same routes give the same text. */
export function openapi(info: Info, contracts: readonly Contract[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of contracts.flatMap((contract) => Object.values(contract))) (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route)
  return {
    openapi: '3.1.0',
    info,
    security: [{ key: [] }],
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))),
    components: { schemas: { Error: schemaOf(ErrorModel, 'output') }, securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
  }
}

function operation(route: Route): object {
  const body = route.bodyKind === 'bytes' ? { type: 'string', format: 'binary' } : schemaOf(route.body, 'input')
  const hasBody = route.body.def.type !== 'undefined'
  const codes: FaultCode[] = [...GENERAL, ...(route.access === 'public' ? [] : WITH_KEY), ...(hasBody ? (['payload_too_large'] as const) : []), ...route.faults]
  const statuses = [...new Set(codes.map((code) => STATUS[code]))]
  return {
    operationId: route.id,
    tags: [route.group],
    summary: route.summary,
    ...(route.access === 'public' && { security: [] }),
    parameters: [...parameters('path', route.params), ...parameters('query', route.query)],
    ...(hasBody && { requestBody: { required: !route.bodyOptional, content: { [BODY_TYPE[route.bodyKind]]: { schema: body } } } }),
    responses: {
      [route.reply.status]: response(route.reply),
      ...otherResponses(route.reply),
      ...Object.fromEntries(
        statuses.map((status) => [
          status,
          { description: DESCRIPTIONS[status], content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } },
        ]),
      ),
    },
  }
}

function parameters(place: 'path' | 'query', schema: z.ZodType): object[] {
  const { properties = {}, required = [] } = schemaOf(schema, 'input') as { properties?: Record<string, { type?: string }>; required?: string[] }
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(property.type === 'object' && { style: 'deepObject', explode: true }),
    schema: property,
  }))
}

function response(reply: Reply): object {
  switch (reply.kind) {
    case 'none':
      return { description: 'Done.' }
    case 'json':
      return { description: 'OK', content: { 'application/json': { schema: schemaOf(reply.schema, 'output') } } }
    case 'page':
      return {
        description: 'OK',
        headers: { 'X-Has-More': { schema: { type: 'boolean' } }, 'X-Next-Offset': { schema: { type: 'integer' } } },
        content: { 'application/json': { schema: { type: 'array', items: schemaOf(reply.item, 'output') } } },
      }
    case 'tokenPage':
      return {
        description: 'OK',
        headers: { 'X-Has-More': { schema: { type: 'boolean' } }, 'X-Next-Page-Token': { schema: { type: 'string' } } },
        content: { 'application/json': { schema: { type: 'array', items: schemaOf(reply.item, 'output') } } },
      }
    case 'bytes':
      return { description: 'OK', content: content(reply) }
    case 'events':
      return { description: 'Server-sent events, one JSON object each.', content: { 'text/event-stream': { schema: schemaOf(reply.event, 'output') } } }
    case 'lines':
      return { description: 'JSON values, one per line.', content: { [reply.type]: { schema: schemaOf(reply.line, 'output') } } }
    case 'text':
      return { description: 'OK', content: { [reply.type]: { schema: { type: 'string' } } } }
  }
}

const content = ({ type, schema }: Extract<Reply, { kind: 'bytes' }>): object => ({
  [type.split(';')[0]!]: { schema: schema ? schemaOf(schema, 'output') : { type: 'string', format: 'binary' } },
})

function othersOf(reply: Reply): OtherReplies {
  if (reply.kind === 'json' && reply.none !== undefined) return { 204: { description: reply.none, hasBody: false } }
  return (reply.kind === 'bytes' && reply.others) || {}
}

const otherResponses = (reply: Reply): object =>
  Object.fromEntries(
    Object.entries(othersOf(reply)).map(([status, { description, hasBody }]) => [
      status,
      { description, ...(hasBody && { content: content(reply as Extract<Reply, { kind: 'bytes' }>) }) },
    ]),
  )

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any', reused: 'inline' }) as { $schema?: string }
  return rest
}
