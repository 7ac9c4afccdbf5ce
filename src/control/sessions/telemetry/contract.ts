// The option `telemetry` of browsers, pools and acquires: which events a session captures. The categories: src/agent/telemetry/contract.ts.
import * as z from 'zod'
import type { Fit } from '../../../agent/session/contract.ts'
import {
  CdpCommand,
  DEFAULT_CATEGORIES,
  Envelope,
  MAX_SEQ,
  namesQuery,
  SETTABLE_CATEGORIES,
  SettableCategory,
  type TelemetryFit,
} from '../../../agent/telemetry/contract.ts'
import { bytes, json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { option, type Refusal } from '../browsers/options/option/contract.ts'

const CategoryConfig = z.strictObject({ enabled: z.boolean().optional() })
const ControlConfig = CategoryConfig.extend({
  /** Commands of CDP clients that make no `cdp_command` events. With an empty list, all commands make them. */
  cdp: z.strictObject({ excluded_methods: z.array(CdpCommand).max(100).optional() }).optional(),
})

/** A destination, by id or name. Names become ids before a session is made (destinations/references.ts). */
const Destination = z
  .strictObject({ id: z.string().min(1).max(255).optional(), name: z.string().min(1).max(255).optional() })
  .refine(({ id, name }) => (id === undefined) !== (name === undefined), 'must have exactly one of id and name')

const Otlp = z
  .strictObject({ enabled: z.boolean().optional(), destination: Destination.optional() })
  .refine(({ enabled, destination }) => enabled !== false || destination === undefined, {
    path: ['enabled'],
    error: 'cannot be false together with a destination',
  })

/** A caller's telemetry setting. The categories in it are merged into the defaults, or, in an update, into those that are on. */
export const GivenTelemetry = z
  .strictObject({
    enabled: z.boolean().optional(),
    browser: z.strictObject({ ...categoryShape(CategoryConfig.optional()), control: ControlConfig.optional() }).optional(),
    /** A destination enables the export. */
    export: z.strictObject({ otlp: Otlp.optional() }).optional(),
    /** `false`: events are exported only, and not stored for callers. */
    storage: z.strictObject({ enabled: z.boolean().optional() }).optional(),
  })
  .superRefine(({ enabled, browser }, context) => {
    if (enabled === false && namesSome(browser))
      context.addIssue({ code: 'custom', path: ['enabled'], message: 'cannot be false together with settings of categories' })
  })
export type GivenTelemetry = z.output<typeof GivenTelemetry>

/** The telemetry setting in a session's row. */
export interface StoredTelemetry {
  /** At least one category. Exception: empty while a session that stores nothing captures nothing, so that its row remembers `storage`. */
  categories: SettableCategory[]
  excluded_methods?: CdpCommand[]
  /** The id of the destination to which it is exported. */
  destination?: string
  /** Set when events are not stored for callers. */
  storage?: false
}

/** The telemetry setting in answers. */
export const ShownTelemetry = z
  .object({
    browser: z.object({
      ...categoryShape(z.object({ enabled: z.boolean() })),
      control: z.object({ enabled: z.boolean(), cdp: z.object({ excluded_methods: z.array(CdpCommand) }).optional() }),
    }),
    /** Without a destination when it is not exported. */
    export: z.object({ otlp: z.object({ enabled: z.boolean(), destination: z.string().optional() }) }),
    storage: z.object({ enabled: z.boolean() }),
  })
  .nullable()

function categoryShape<S extends z.ZodType>(schema: S): Record<SettableCategory, S> {
  return Object.fromEntries(SETTABLE_CATEGORIES.map((name) => [name, schema])) as Record<SettableCategory, S>
}

const namesSome = (browser: object | undefined): boolean => Object.values(browser ?? {}).some((config) => config !== undefined)

/** Whether the setting says which events are captured. */
const saysCapture = (given: GivenTelemetry | undefined): boolean => given?.enabled !== undefined || namesSome(given?.browser)

/** Whether the setting has any effect. */
export const saysSomething = (given: GivenTelemetry | undefined): boolean =>
  saysCapture(given) || namesSome(given?.export?.otlp) || given?.storage?.enabled !== undefined

/** The categories that are captured with this setting. */
function captured(given: GivenTelemetry | undefined, before: StoredTelemetry | undefined): SettableCategory[] {
  if (!saysCapture(given)) return before?.categories ?? []
  const { enabled, browser = {} } = given!
  if (enabled === false) return []
  // `enabled: true` starts from the defaults.
  const onto = enabled || !before?.categories.length ? DEFAULT_CATEGORIES : before.categories
  return SETTABLE_CATEGORIES.filter((name) => browser[name]?.enabled ?? (onto as readonly SettableCategory[]).includes(name))
}

/** The new setting of a session that captures `before`. Undefined: nothing is captured. */
export function merged(given: GivenTelemetry | undefined, before?: StoredTelemetry): StoredTelemetry | undefined {
  if (!saysSomething(given)) return before
  const categories = captured(given, before)
  const { enabled, browser, storage, export: { otlp } = {} } = given!
  const excluded = browser?.control?.cdp?.excluded_methods ?? (enabled ? undefined : before?.excluded_methods) ?? []
  const destination = otlp?.destination?.id ?? (otlp?.enabled === false ? undefined : before?.destination)
  const isKept = storage?.enabled ?? before?.storage !== false
  if (categories.length === 0 && (isKept || !before)) return undefined
  return {
    categories,
    ...(excluded.length > 0 && { excluded_methods: [...new Set(excluded)] }),
    ...(destination !== undefined && { destination }),
    ...(!isKept && { storage: false }),
  }
}

/** Why this setting is refused for a session that captures `before`; undefined when it is not. `isNew`: the session is being created, or acquired, with it. */
export function telemetryProblem(given: GivenTelemetry | undefined, before: StoredTelemetry | undefined, isNew: boolean): Refusal | undefined {
  if (!saysSomething(given)) return undefined
  const { storage, export: { otlp } = {} } = given!
  const wasKept = before?.storage !== false
  const isKept = storage?.enabled ?? wasKept
  const isExported = otlp?.destination !== undefined || (otlp?.enabled !== false && before?.destination !== undefined)
  const refuse = (field: string, problem: string): Refusal => ({ field: `telemetry.${field}`, problem })
  if (!isNew && isKept !== wasKept) return refuse('storage.enabled', 'cannot be changed after the browser was created')
  if (otlp?.destination && captured(given, before).length === 0)
    return refuse('export.otlp.destination', 'needs telemetry that is captured: set telemetry.enabled to true, or a category')
  if (otlp?.enabled && !isExported) return refuse('export.otlp.destination', 'must be given: nothing says where telemetry is to be exported to')
  if (!isKept && !isExported) return storage?.enabled === false ? refuse('storage.enabled', NEEDS_EXPORT) : refuse('export.otlp.enabled', NOT_STORED)
  return undefined
}

const NEEDS_EXPORT = 'can be false only with a destination in telemetry.export.otlp'
const NOT_STORED = 'cannot be false: telemetry of this session is not stored, only exported'

/** The setting for the agent. */
export const fittedTelemetry = (stored: StoredTelemetry | undefined): TelemetryFit => ({
  categories: stored?.categories ?? [],
  excluded_methods: stored?.excluded_methods ?? [],
})

/** The setting in answers. */
export function shownTelemetry(stored: StoredTelemetry | undefined): z.output<typeof ShownTelemetry> {
  if (!stored?.categories.length) return null
  const browser = Object.fromEntries(SETTABLE_CATEGORIES.map((name) => [name, { enabled: stored.categories.includes(name) }])) as Record<
    SettableCategory,
    { enabled: boolean }
  >
  const { excluded_methods: excluded, destination, storage } = stored
  return {
    browser: { ...browser, control: { ...browser.control, ...(excluded && { cdp: { excluded_methods: excluded } }) } },
    export: { otlp: { enabled: destination !== undefined, ...(destination !== undefined && { destination }) } },
    storage: { enabled: storage !== false },
  }
}

const fitOf = (stored: StoredTelemetry | undefined): Fit => ({ telemetry: fittedTelemetry(stored) })

export const telemetryOption = option({
  create: GivenTelemetry.optional(),
  update: GivenTelemetry.optional(),
  refuseCreate: (given) => telemetryProblem(given, undefined, true),
  refuseUpdate: (given, _, before) => telemetryProblem(given, before as StoredTelemetry | undefined, false),
  store: (given) => merged(given),
  restore: (given, before: StoredTelemetry | undefined) => merged(given, before),
  reply: { schema: ShownTelemetry, show: shownTelemetry },
  fit: (given) => (merged(given) ? fitOf(merged(given)) : {}),
  refit: (given, stored) => (saysCapture(given) ? fitOf(stored) : {}),
})

const group = 'Browser Telemetry'
const session = z.strictObject({ id: z.string().min(1) })
/** A time, or an age. */
const TimeText = z.string().max(64)

/** The calls about stored telemetry. They need a key: the holder of a session's token sees only events from the time in which it has the session. */
export const telemetryArchive = {
  listTelemetryEvents: route({
    method: 'GET',
    path: '/browsers/{id}/telemetry/events',
    id: 'listTelemetryEvents',
    group,
    summary: 'List the telemetry events that are kept of a browser session, which may have ended',
    params: session,
    query: z.strictObject({
      category: namesQuery,
      type: namesQuery,
      /** The start of a page, from `X-Next-Offset`; 0: the first page. */
      offset: z.coerce.number().int().min(0).max(MAX_SEQ).default(0),
      limit: pagingQuery.limit,
      /** Events at or after this time. Default: five minutes ago, unless `offset` is given, or the newest events come first. */
      since: TimeText.optional(),
      /** Events before this time. */
      until: TimeText.optional(),
      order: z.enum(['asc', 'desc']).default('asc'),
    }),
    reply: page(Envelope),
    faults: ['not_found'],
  }),
  exportHar: route({
    method: 'GET',
    path: '/browsers/{id}/har',
    id: 'exportHar',
    group,
    summary: 'Download the network events that are kept of a browser session as an HTTP Archive (HAR 1.2)',
    params: session,
    query: z.strictObject({ since: TimeText.optional(), until: TimeText.optional() }),
    // No limit: it takes as long as its reader needs.
    deadlineMs: Infinity,
    reply: bytes('application/json', { schema: z.object({ log: z.looseObject({ version: z.string(), entries: z.array(z.looseObject({})) }) }) }),
    faults: ['not_found', 'too_many_requests'],
  }),
  deleteTelemetry: route({
    method: 'DELETE',
    path: '/browsers/{id}/telemetry',
    id: 'deleteTelemetry',
    group,
    summary: 'Delete what is kept of the telemetry of a browser session; of one that runs, what follows is kept again',
    params: session,
    reply: none(),
    faults: ['not_found'],
  }),
  deleteOldTelemetry: route({
    method: 'DELETE',
    path: '/telemetry',
    id: 'deleteOldTelemetry',
    group,
    summary: "Delete what is kept of the telemetry of the project's browser sessions that ended before a time",
    query: z.strictObject({ before: TimeText }),
    deadlineMs: 600_000,
    reply: json(z.object({ sessions: z.int() })),
  }),
}
