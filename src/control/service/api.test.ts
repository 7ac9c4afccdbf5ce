// The API document: the committed one matches the running service, and follows the published contract.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { MAX_SEQ } from '../../agent/telemetry/contract.ts'
import { MAX_INTEGER } from '../../http/route.ts'
import { contracts } from '../modules.ts'
import { openapiText } from './openapi.ts'
import { instanceApis } from '../sessions/browsers/instance-apis.ts'

interface Operation {
  operationId: string
  summary: string
  security?: unknown[]
  parameters: { name: string; in: string; required: boolean }[]
  requestBody?: object
  responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>
}
const document = JSON.parse(openapiText(contracts)) as { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, object> } }
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, path, operation })),
)

/** Groups that Cob has in addition to the published API. */
const OWN_GROUPS = ['CDP', 'System', 'Sign-in', 'Members']

/** A path that the SDK's `browsers.fetch` calls itself. The published list does not have it as an operation. */
const UNLISTED = '/browsers/{id}/curl/raw'

/** Operations of newer SDKs that the published list (0.84) does not have. */
const NEWER = [
  'GET /auth/context',
  'GET /org/entitlements',
  ...['GET', 'POST'].map((method) => `${method} /audit-logs/export/destinations`),
  ...['GET', 'PATCH', 'DELETE'].map((method) => `${method} /audit-logs/export/destinations/{id}`),
  'POST /audit-logs/export/destinations/{id}/test',
  ...['GET', 'POST'].map((method) => `${method} /telemetry/destinations`),
  ...['GET', 'PATCH', 'DELETE'].map((method) => `${method} /telemetry/destinations/{id_or_name}`),
]

/** Our own operations in published groups. */
const OURS = [
  'POST /auth/connections/{id}/exchange',
  'GET /profiles/{id_or_name}/versions',
  'POST /profiles/{id_or_name}/versions/{version_id}/restore',
  'GET /browsers/{id}/har',
  'GET /browsers/{id_or_name}/thumbnail',
  'DELETE /browsers/{id}/telemetry',
  'DELETE /telemetry',
]

/** Operations with more than one successful answer. */
const SEVERAL: Record<string, string[]> = {
  acquireBrowser: ['200', '204'],
  createInvocation: ['200', '202'],
  downloadProfile: ['200', '202'],
  downloadReplay: ['200', '202', '206'],
  getBrowserThumbnail: ['200', '204'],
  readFile: ['200', '206'],
}

test('openapi.json matches the code (npm run openapi updates it)', () => {
  expect(readFileSync(join(PACKAGE_DIR, 'openapi.json'), 'utf8')).toBe(openapiText(contracts))
})

test('every route of the contracts is in the document once, under an id of its own', () => {
  const routes = contracts.flatMap((contract) => Object.values(contract))
  expect(operations.map(({ name }) => name).toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).toSorted())
  expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
})

test('the name of a handler is the id of its operation', () => {
  for (const contract of contracts) for (const [name, { id }] of Object.entries(contract)) expect(id).toBe(name)
})

test('every route belongs to the published API, or to one of our own groups', () => {
  const published = (JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data/operations.json'), 'utf8')) as { http_method: string; path: string }[]).map(
    ({ http_method, path }) => `${http_method} ${path}`,
  )
  const routes = contracts.flatMap((contract) => Object.values(contract)).filter(({ group, path }) => !OWN_GROUPS.includes(group) && path !== UNLISTED)
  // Newer releases use {id_or_name} where 0.84 has {id}.
  const isPublished = (name: string) => [...published, ...NEWER, ...OURS].includes(name) || published.includes(name.replace('{id_or_name}', '{id}'))
  expect(routes.map(({ method, path }) => `${method} ${path}`).filter((name) => !isPublished(name))).toEqual([])
})

test('every integer that callers send to the control plane is limited to the range of its database column', () => {
  const forwarded = new Set(Object.values(instanceApis).map(({ id }) => id))
  /** Columns of 64 bits. */
  const large = new Set(['listTelemetryEvents'])
  const unbounded: string[] = []
  const look = (name: string, schema: unknown, limit: number): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { type, maximum } = schema as { type?: unknown; maximum?: number }
    if (type === 'integer' && !(Number(maximum) <= limit)) unbounded.push(name)
    for (const [key, value] of Object.entries(schema)) look(`${name}.${key}`, value, limit)
  }
  for (const { operation } of operations.filter((one) => !forwarded.has(one.operation.operationId)))
    for (const part of ['parameters', 'requestBody'] as const)
      look(`${operation.operationId}.${part}`, operation[part], large.has(operation.operationId) ? MAX_SEQ : MAX_INTEGER)
  expect(unbounded).toEqual([])
})

describe.each(operations)('$name', ({ path, operation }) => {
  test('declares exactly the parameters in its path', () => {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
    const declared = operation.parameters.filter((parameter) => parameter.in === 'path')
    expect(declared.map(({ name }) => name).toSorted()).toEqual(inPath.toSorted())
    expect(declared.every(({ required }) => required)).toBe(true)
  })

  test('describes its successful answer, and errors in the common shape', () => {
    const statuses = Object.keys(operation.responses)
    const several = SEVERAL[operation.operationId]
    expect(statuses.filter((status) => status.startsWith('2'))).toEqual(several ?? [expect.any(String)])
    for (const status of statuses.filter((code) => Number(code) >= 400))
      expect(operation.responses[status]!.content).toEqual({ 'application/json': { schema: { $ref: '#/components/schemas/Error' } } })
    // A wrong code of a login, or a key in a body, is refused like a key in a header.
    expect(statuses.includes('401')).toBe(operation.security === undefined || ['exchangeAuthConnectionCode', 'signInWithKey'].includes(operation.operationId))
    expect(operation.summary).not.toBe('')
  })
})
