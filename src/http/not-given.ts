// Treats `null` as "not given": clients and templates send it for optional fields that they do not set.
import type * as z from 'zod'

type Def = z.core.$ZodTypes['_zod']['def']
type Schema = z.core.$ZodType

/**
 * `value` without the properties that are `null` where `schema` allows absence but not `null`. Nested objects, arrays and maps are included. A
 * `null` that the schema gives a meaning stays. A required field keeps its `null` and is refused for it.
 */
export function withoutNulls(schema: Schema, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const def = schema._zod.def as Def
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'readonly':
    case 'catch':
      return withoutNulls(def.innerType, value)
    case 'pipe':
      return withoutNulls(def.in, value)
    case 'lazy':
      return withoutNulls(def.getter(), value)
    case 'intersection':
      return withoutNulls(def.right, withoutNulls(def.left, value))
    case 'union':
      return ofUnion(def, value)
    case 'array':
      return Array.isArray(value) ? value.map((item) => withoutNulls(def.element, item)) : value
    case 'tuple':
      return Array.isArray(value) ? value.map((item, index) => (def.items[index] ? withoutNulls(def.items[index], item) : item)) : value
    case 'record':
      return Array.isArray(value) ? value : Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutNulls(def.valueType, item)]))
    case 'object':
      return Array.isArray(value) ? value : ofObject(def.shape, value as Record<string, unknown>)
    default:
      return value
  }
}

const ofObject = (shape: Readonly<Record<string, Schema>>, value: Record<string, unknown>): unknown =>
  Object.fromEntries(
    Object.entries(value).flatMap(([name, item]) => {
      const field = Object.hasOwn(shape, name) ? shape[name] : undefined
      if (!field) return [[name, item]]
      if (item !== null) return [[name, withoutNulls(field, item)]]
      return field._zod.optin !== undefined && !accepts(field, null) ? [] : [[name, item]]
    }),
  )

/** The option of a union that `value` is meant for: by its discriminator, else the first that accepts it. */
function ofUnion(def: z.core.$ZodUnionDef & { discriminator?: string }, value: object): unknown {
  const { discriminator } = def
  if (discriminator !== undefined) {
    const said = (value as Record<string, unknown>)[discriminator]
    const option = def.options.find((one) => one._zod.propValues?.[discriminator]?.has(said as never))
    return option ? withoutNulls(option, value) : value
  }
  for (const option of def.options) {
    const stripped = withoutNulls(option, value)
    if (accepts(option, stripped)) return stripped
  }
  return value
}

const accepts = (schema: Schema, value: unknown): boolean => (schema as z.ZodType).safeParse(value).success
