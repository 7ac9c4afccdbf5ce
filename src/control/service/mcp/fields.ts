// The schemas of single fields: found in the schemas of routes, and in the form for hosts.
import * as z from 'zod'

/** JSON Schema. */
export type Json = Record<string, unknown>
type Def = z.core.$ZodTypes['_zod']['def']

const defOf = (schema: z.core.$ZodType): Def => schema._zod.def as Def

/** The inner schema, without wrappers that make it optional. */
function bare(schema: z.core.$ZodType): z.core.$ZodType {
  const def = defOf(schema)
  if ('innerType' in def) return bare(def.innerType)
  return def.type === 'pipe' ? bare(def.in) : schema
}

/** The schema at a path, and whether it is required; undefined when there is none. In a union: the schemas of all options that have the path. */
export function schemaAt(schema: z.core.$ZodType, [name, ...rest]: readonly string[]): { schema: z.ZodType; isRequired: boolean } | undefined {
  const isNeeded = schema._zod.optin === undefined
  if (name === undefined) return { schema: schema as z.ZodType, isRequired: isNeeded }
  const def = defOf(bare(schema))
  const options = def.type === 'union' ? def.options.map(bare) : [bare(schema)]
  const found = options.map((option) => {
    const of = defOf(option)
    const child = of.type === 'object' ? of.shape[name] : of.type === 'array' && name === '0' ? of.element : undefined
    return child && schemaAt(child, rest)
  })
  const [first, ...others] = found.filter((one) => one !== undefined)
  if (!first) return undefined
  return {
    schema: others.length === 0 ? first.schema : z.union([first.schema, ...others.map((one) => one.schema)]),
    isRequired: isNeeded && found.every((one) => one?.isRequired),
  }
}

/** A schema in the form for hosts: without unions of objects and without tuples, which some hosts do not support. */
export function shown(schema: z.ZodType): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as Json
  return flat(json)
}

function flat(json: Json): Json {
  const { oneOf, anyOf = oneOf, prefixItems, ...own } = json as { oneOf?: Json[]; anyOf?: Json[]; prefixItems?: Json[] } & Json
  if (prefixItems) return { ...own, items: flat(prefixItems[0]!) }
  const rest = Object.fromEntries(
    Object.entries(own).map(([key, value]) => {
      if (key === 'properties') return [key, Object.fromEntries(Object.entries(value as Json).map(([name, of]) => [name, flat(of as Json)]))]
      return [key, (key === 'items' || key === 'additionalProperties') && typeof value === 'object' ? flat(value as Json) : value]
    }),
  )
  // A missing field needs no null.
  return anyOf
    ? {
        ...anyOf
          .filter(({ type }) => type !== 'null')
          .map(flat)
          .reduce(either),
        ...rest,
      }
    : rest
}

/** A schema that accepts the values of both. */
export function either(one: Json, other: Json): Json {
  if (isSame(one, other)) return one
  const [some, others] = [one, other].map(({ enum: values, const: only }) => (values as unknown[] | undefined) ?? (only === undefined ? undefined : [only]))
  if (some && others) return { type: one.type, enum: [...new Set([...some, ...others])] }
  if (one.type === other.type && one.type !== undefined && !some && !others) return widest(one, other)
  const options = [one, other].flatMap((json) => (json.anyOf as Json[] | undefined) ?? [json])
  return { anyOf: options.filter((option, at) => options.findIndex((first) => isSame(first, option)) === at) }
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** The schema for two schemas of one type: only the limits that both have. */
function widest(one: Json, other: Json): Json {
  const both = Object.keys(one).filter((key) => key in other)
  return Object.fromEntries(
    both.flatMap((key): [string, unknown][] => {
      const [a, b] = [one[key], other[key]]
      if (isSame(a, b)) return [[key, a]]
      if (key === 'properties') return [[key, together(a as Record<string, Json>, b as Record<string, Json>)]]
      if (key === 'required') return [[key, (a as string[]).filter((name) => (b as string[]).includes(name))]]
      if (/^min|^max/.test(key)) return [[key, Math[key.startsWith('min') ? 'min' : 'max'](a as number, b as number)]]
      return typeof a === 'object' && typeof b === 'object' ? [[key, either(a as Json, b as Json)]] : []
    }),
  )
}

const together = (one: Record<string, Json>, other: Record<string, Json>): Json => ({
  ...other,
  ...Object.fromEntries(Object.entries(one).map(([name, schema]) => [name, other[name] ? either(schema, other[name]) : schema])),
})
