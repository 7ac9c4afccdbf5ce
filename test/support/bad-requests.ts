// Generates bad requests for every route of the API: odd paths, queries, headers and bodies. Some are valid by chance.
import fc, { type Arbitrary } from 'fast-check'
import { readFileSync } from 'node:fs'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { contracts } from '../../src/control/modules.ts'
import { openapiText } from '../../src/control/service/openapi.ts'
import { mutated, oddText, oddValue, valid, type Field } from './odd-values.ts'

/** A placeholder in a path; it is replaced by the live session when the request is sent. */
export const LIVE = '{live}'

export interface BadRequest {
  method: string
  path: string
  headers: OutgoingHttpHeaders
  body: Uint8Array | undefined
  /** The chunk size of the body. When set, the request has no Content-Length. */
  pieces: number | undefined
}

interface Route {
  name: string
  method: string
  path: string
  query: string[]
  body: Arbitrary<unknown> | undefined
}

// ---- the routes ----

const operations = JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data/operations.json'), 'utf8')) as {
  http_method: string
  path: string
  request_body: Record<string, Field> | null
}[]
const document = JSON.parse(openapiText(contracts)) as {
  paths: Record<string, Record<string, { parameters: { name: string; in: string }[]; requestBody?: object }>>
}

/** Every route of the API, with the published description of its body. */
export const routes: Route[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([lower, operation]) => {
    const method = lower.toUpperCase()
    // Newer releases also accept names where the published list has ids.
    const paths = [path, path.replace('{id_or_name}', '{id}')]
    const published = operations.find((other) => other.http_method === method && paths.includes(other.path))
    return {
      name: `${method} ${path}`,
      method,
      path,
      query: operation.parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
      body: operation.requestBody && valid({ type: 'object', fields: published?.request_body ?? {} }),
    }
  }),
)

// ---- bodies ----

const bytes = (text: string): Uint8Array => Buffer.from(text)
const RAW_BODIES = [
  '',
  ' ',
  'null',
  '{"timeout_seconds":1e400}',
  '{"timeout_seconds":-0}',
  '{"timeout_seconds":060}',
  '{"name":"a","name":"b"}',
  '{"name":"\\ud800"}',
  '{"name":"\u0000"}',
  '\ufeff{}',
  '{}{}',
  '{"a":1,}',
  '/**/{}',
  '['.repeat(50_000),
  '{"a":'.repeat(20_000),
  `{"name":"${'x'.repeat(100_000)}"}`,
  `[${'0,'.repeat(50_000)}0]`,
  '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--x--',
].map(bytes)

function bodyFor(right: Arbitrary<unknown>): Arbitrary<Uint8Array | undefined> {
  const text = (value: Arbitrary<unknown>) => value.map((each) => JSON.stringify(each) ?? '')
  return fc.oneof(
    { weight: 3, arbitrary: text(right).map(bytes) },
    { weight: 10, arbitrary: text(mutated(right)).map(bytes) },
    { weight: 2, arbitrary: text(oddValue).map(bytes) },
    { weight: 2, arbitrary: fc.tuple(text(mutated(right)), fc.nat()).map(([json, cut]) => bytes(json.slice(0, cut % (json.length + 1)))) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(text(right), fc.nat(), fc.constantFrom([0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf8, 0x88], [0x00]))
        .map(([json, at, bad]) => Buffer.concat([bytes(json.slice(0, at % (json.length + 1))), Buffer.from(bad), bytes(json.slice(at % (json.length + 1)))])),
    },
    { weight: 2, arbitrary: fc.constantFrom(...RAW_BODIES) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  )
}

// ---- paths and queries ----

const encoded = oddText.map((text) => encodeURIComponent(text.toWellFormed()))
export const segment = fc.oneof(
  { weight: 4, arbitrary: fc.constant(LIVE) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '%00',
      'a%00b',
      '%2F',
      'a%2Fb',
      '..%2f..%2fetc',
      '%',
      '%2',
      '%zz',
      '%ff',
      '%c0%ae',
      '%ed%a0%80',
      '.',
      '..',
      '',
      ';',
      '*',
      ':id',
      '{id}',
      '~',
      'x'.repeat(4_096),
      '%61'.repeat(1_365),
      encodeURIComponent('🌽'),
      LIVE.concat('%20'),
      LIVE.concat('/'),
    ),
  },
  { weight: 3, arbitrary: encoded },
)

function queryFor(names: readonly string[]): Arbitrary<string> {
  const name = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...names, 'limit', 'jwt') },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'tags[k]',
        'tags[k]',
        'tags[]',
        'tags[',
        'tags]',
        'tags[a][b]',
        'tags[__proto__]',
        '__proto__[x]',
        '__proto__',
        'limit[a]',
        'constructor',
        'offset[0]',
        '[]',
        '',
      ),
    },
    { weight: 1, arbitrary: encoded },
  )
  const value = fc.oneof(
    { weight: 3, arbitrary: encoded },
    {
      weight: 3,
      arbitrary: fc.constantFrom(
        '0',
        '1',
        '-1',
        '100',
        '1e99',
        '1.5',
        '999999999999999999999',
        'true',
        'false',
        'all',
        'deleted',
        'NaN',
        '%00',
        '%',
        '%zz',
        '%ff',
        '+',
        'a%2Cb',
        '',
      ),
    },
  )
  const pair = fc.tuple(name, value).map(([left, right]) => `${left}=${right}`)
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant('') },
    { weight: 2, arbitrary: fc.array(pair, { minLength: 1, maxLength: 5 }).map((pairs) => `?${pairs.join('&')}`) },
    { weight: 1, arbitrary: fc.constantFrom('?', '??', '?&&', '?=', '?#', '?a=1?b=2', `?${'a=b&'.repeat(1_000)}`, `?query=${'x'.repeat(8_000)}`) },
  )
}

// ---- headers, and whole requests ----

const CONTENT_TYPES = [
  undefined,
  '',
  'text/plain',
  'application/json; charset=utf-16',
  'application/jsonx',
  'multipart/form-data',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  'application/octet-stream',
  ';;;',
  'a/b/c',
  '*/*',
  'application/json, text/plain',
]
const EXTRA: OutgoingHttpHeaders[] = [
  {},
  {},
  {},
  { 'x-request-id': '<b>' },
  { 'x-request-id': 'x'.repeat(5_000) },
  { 'content-encoding': 'gzip' },
  { accept: 'nothing/at-all;q=x' },
  { range: 'bytes=5-1' },
  { 'if-none-match': '*' },
  { 'x-http-method-override': 'DELETE' },
  { 'x-kernel-project-id': '\u00ff' },
  { cookie: 'a=b; ='.repeat(50) },
  { host: '' },
  { host: 'a b' },
  { host: '[' },
  { host: 'x:99999' },
  { host: '"><script>' },
  { host: 'evil.example:1' },
  { forwarded: 'for=x;proto=javascript' },
  { 'x-forwarded-host': '[', 'x-forwarded-proto': 'javascript' },
  { te: 'trailers, x' },
  { 'keep-alive': '-1' },
]
const authorization = fc.oneof(
  { weight: 12, arbitrary: fc.constant('{key}') },
  { weight: 1, arbitrary: fc.constantFrom(undefined, '', 'Bearer', 'Bearer wrong', 'Basic x', 'Bearer '.repeat(100), 'Bearer \u00ff', 'Bearer a.b.c') },
)

export function badRequest(method: Arbitrary<string>, path: Arbitrary<string>, query: readonly string[], body: Arbitrary<unknown>): Arbitrary<BadRequest> {
  return fc
    .record({
      method,
      path,
      query: queryFor(query),
      body: bodyFor(body),
      type: fc.oneof({ weight: 8, arbitrary: fc.constant('application/json') }, { weight: 1, arbitrary: fc.constantFrom(...CONTENT_TYPES) }),
      pieces: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 5_000 }) }),
      extra: fc.constantFrom(...EXTRA),
      authorization,
    })
    .map(({ query: search, type, extra, authorization: auth, ...rest }) => ({
      ...rest,
      path: rest.path + search,
      headers: { ...extra, ...(auth !== undefined && { authorization: auth }), ...(type !== undefined && { 'content-type': type }) },
    }))
}
