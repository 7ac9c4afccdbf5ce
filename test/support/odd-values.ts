// Values to send: valid values generated from a field's published description, odd values, and valid values with odd parts.
import fc, { type Arbitrary } from 'fast-check'

/** The published description of a field. */
export interface Field {
  type?: string
  required?: boolean
  enum?: string[]
  bounds?: { minimum?: number; maximum?: number; minItems?: number }
  fields?: Record<string, Field>
  items?: Field
}

// ---- valid values ----

/** Fixed values for fields with few valid values, and small values for fields where large ones only take time. */
function few(name: string): Arbitrary<unknown> | undefined {
  const texts: Record<string, string[]> = { start_url: ['about:blank', 'https://example.com/'], name: ['a', 'my browser', 'ü/%'], hold_keys: [] }
  const numbers: Record<string, [number, number]> = {
    duration_ms: [50, 60],
    // An odd text may have 5,000 characters, and the delay is per character.
    delay: [0, 1],
    step_delay_ms: [0, 2],
    duration: [0, 60],
    // A notch of the wheel takes one frame.
    delta_x: [-2, 2],
    delta_y: [-2, 2],
    steps_per_segment: [1, 4],
    width: [100, 300],
    height: [100, 300],
    refresh_rate: [1, 60],
    x: [0, 99],
    y: [0, 49],
  }
  if (name === 'path') return fc.array(fc.tuple(fc.nat(99), fc.nat(49)), { minLength: 2, maxLength: 3 })
  if (name === 'chrome_policy') return fc.constantFrom({}, { HomepageLocation: 'https://example.com' }, { ProxyMode: 'direct' })
  if (texts[name]?.length) return fc.constantFrom(...texts[name])
  return numbers[name] && fc.integer({ min: numbers[name][0], max: numbers[name][1] })
}

const ALWAYS = ['duration_ms', 'delay', 'step_delay_ms', 'steps_per_segment']

export function valid(field: Field): Arbitrary<unknown> {
  switch (field.type) {
    case 'object':
      return fc.record(
        Object.fromEntries(
          Object.entries(field.fields ?? {}).map(([name, part]) => {
            const value = few(name) ?? valid(part)
            return [
              name,
              part.required || ALWAYS.includes(name) ? value : fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value }),
            ]
          }),
        ),
      )
    case 'array':
      return fc.array(valid(field.items ?? {}), { minLength: field.bounds?.minItems ?? 0, maxLength: 4 })
    case 'integer':
    case 'number':
      return fc.integer({ min: field.bounds?.minimum ?? 0, max: field.bounds?.maximum ?? 1_000 })
    case 'boolean':
      return fc.boolean()
    case 'string':
      return field.enum ? fc.constantFrom(...field.enum) : fc.string({ minLength: 1, maxLength: 20 })
    case 'map<string>':
      return fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }), fc.string({ maxLength: 10 }), { maxKeys: 4 })
    default:
      return fc.jsonValue()
  }
}

// ---- odd values ----

const TEXTS = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  'x\udc00',
  '../../etc/passwd',
  "'; drop table browsers; --",
  '%',
  '%00',
  '{live}',
  '__proto__',
  'constructor',
  'null',
  'NaN',
  '-1',
  '1e3',
  'true',
  '\u202e',
  '\u{1f33d}',
  'x'.repeat(300),
  'x'.repeat(5_000),
  '[]',
  '{}',
  'tags[a]',
  '\r\nx: y',
  'htzv5orfit78e1m2biiifpbv',
]
export const oddText = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }))
const oddNumber = fc.oneof(
  fc.constantFrom(0, -0, -1, 0.1, 1.5, 9, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 53), 1e21, 1e308, -1e308, 5e-324),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)
const deep = fc.integer({ min: 2, max: 2_000 }).map((depth) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown)
const PROTOTYPES = [
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"__proto__":null}',
  '{"toString":1,"valueOf":2,"toJSON":3,"then":4}',
  '{"length":-1}',
].map((text) => JSON.parse(text) as unknown)
export const oddValue: Arbitrary<unknown> = fc.oneof(
  oddText,
  oddNumber,
  fc.boolean(),
  fc.constant(null),
  fc.constant([]),
  fc.constant({}),
  fc.jsonValue(),
  deep,
  fc.constantFrom(...PROTOTYPES),
  fc.array(oddText, { minLength: 60, maxLength: 200 }),
)

/** A valid value with some parts replaced, removed, or added. */
export function mutated(right: Arbitrary<unknown>): Arbitrary<unknown> {
  const change = fc.record({ at: fc.nat(), kind: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'add', 'wrap'), key: oddText, value: oddValue })
  return fc.tuple(right, fc.array(change, { minLength: 1, maxLength: 3 })).map(([value, changes]) => {
    const root = { value: structuredClone(value) }
    for (const { at, kind, key, value: fresh } of changes) {
      const odd = structuredClone(fresh) as unknown
      const places = placesOf(root)
      const [holder, name] = places[at % places.length]!
      if (kind === 'remove' && holder !== root) delete holder[name]
      else if (kind === 'wrap') holder[name] = [holder[name]]
      else if (kind === 'add' && Array.isArray(holder[name])) holder[name].push(odd)
      else if (kind === 'add' && typeof holder[name] === 'object' && holder[name] !== null)
        Object.defineProperty(holder[name], key, { value: odd, enumerable: true, configurable: true, writable: true })
      else holder[name] = odd
    }
    return root.value
  })
}

type Holder = Record<string, unknown>
const placesOf = (holder: Holder, depth = 0): [Holder, string][] =>
  Object.keys(holder).flatMap((name) => [
    [holder, name] as [Holder, string],
    ...(depth < 4 && typeof holder[name] === 'object' && holder[name] !== null ? placesOf(holder[name] as Holder, depth + 1) : []),
  ])
