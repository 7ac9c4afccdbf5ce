// The meaning of `null`, by schema.
import { expect, test } from 'vitest'
import * as z from 'zod'
import { withoutNulls } from './not-given.ts'

const Inner = z.strictObject({ a: z.string().optional(), b: z.int().default(1) })
const schema = z
  .strictObject({
    required: z.string(),
    optional: z.string().optional(),
    defaulted: z.boolean().default(true),
    meant: z.string().nullable().optional(),
    anything: z.unknown().optional(),
    inner: Inner.optional(),
    list: z.array(Inner).optional(),
    map: z.record(z.string(), Inner).optional(),
    action: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('move'), x: z.int().optional() }),
        z.strictObject({ type: z.literal('wait'), ms: z.int().default(5) }),
      ])
      .optional(),
    either: z.union([z.strictObject({ id: z.string() }), z.strictObject({ name: z.string(), id: z.undefined().optional() })]).optional(),
  })
  .refine(() => true)
  .transform((value) => value)

const parse = (value: object) => schema.parse(withoutNulls(schema, { required: 'x', ...value }))

test.each([
  ['an optional field', { optional: null }, {}],
  ['a field with a default', { defaulted: null }, { defaulted: true }],
  ['fields of an object inside', { inner: { a: null, b: null } }, { inner: { b: 1 } }],
  ['fields of objects in a list', { list: [{ a: null }, { b: null }] }, { list: [{ b: 1 }, { b: 1 }] }],
  ['fields of objects in a map', { map: { k: { a: null } } }, { map: { k: { b: 1 } } }],
  ['fields of the option that a discriminator names', { action: { type: 'wait', ms: null } }, { action: { type: 'wait', ms: 5 } }],
  ['fields of the first option that fits without them', { either: { name: 'n', id: null } }, { either: { name: 'n' } }],
])('null means "not set" for %s', (_, sent, read) => {
  expect(parse(sent)).toEqual({ required: 'x', defaulted: true, ...read })
})

test('null keeps the meaning that a schema gives it', () => {
  expect(parse({ meant: null, anything: null })).toMatchObject({ meant: null, anything: null })
})

test.each([{ required: null }, { list: [null] }, { map: { k: null } }, { unknown: null }])('null is refused where a value is required: %j', (sent) => {
  expect(schema.safeParse(withoutNulls(schema, { required: 'x', ...sent })).success).toBe(false)
})

test('property names that every object has are not treated as fields', () => {
  const sent = JSON.parse('{"required":"x","__proto__":{"polluted":null},"constructor":null}') as object
  const stripped = withoutNulls(schema, sent) as object
  expect(Object.keys(stripped)).toEqual(['required', '__proto__', 'constructor'])
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})
