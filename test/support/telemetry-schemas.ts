// Checks telemetry events against the published contract. SDK 0.84 knows some of the types (test/data/schemas.json). The newest Python SDK knows all of them
// (test/data/newest-telemetry.json, generated from its models), and its events may have no other fields.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { EventType, TYPES, type Envelope } from '../../src/agent/telemetry/contract.ts'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { conforms } from './contract.ts'

interface Schemas {
  /** The schema of each type of event. */
  'x-event-types': Record<string, string>
  /** The schema of the data of each command in `cdp_command` events. */
  'x-cdp-commands': Record<string, string>
  $defs: Record<string, object>
}

const file = (name: string): unknown => JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data', name), 'utf8'))
const newest = file('newest-telemetry.json') as Schemas
const { 'x-telemetry-event-types': known } = file('schemas.json') as { 'x-telemetry-event-types': { type: string; schema: string }[] }
const older = new Map(known.map(({ type, schema }) => [type, schema]))

const ajv = new Ajv2020({ strict: false, allErrors: true })
ajv.addSchema(newest)
const compiled = new Map<string, ValidateFunction>()

/** The event types of the newest release. */
export const NEWEST_TYPES = Object.keys(newest['x-event-types'])
/** The commands of the newest release. */
export const NEWEST_COMMANDS = Object.keys(newest['x-cdp-commands'])

/** Cob's own event type, which says that events between two others are missing. Each source adds what it knows. */
const Lost = z.looseObject({ reason: z.string() })

/** Target types that SDK 0.84 does not list. The newest release does, so its check gets them unchanged. */
const NEWER_TARGETS = new Set<unknown>(['iframe', 'worker'])

/** The limit of an envelope as JSON. A screenshot may have 1 MiB. */
const MAX_LENGTH = 64 * 1024

function check(definition: string, value: unknown): void {
  const validate = compiled.get(definition) ?? ajv.compile({ $ref: `newest-telemetry#/$defs/${definition}` })
  compiled.set(definition, validate)
  if (!validate(value)) throw new Error(`not a ${definition}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value, null, 1).slice(0, 1500)}`)
}

/** Returns `envelope`. @throws unless it is an event of the contract */
export function assertEvent(envelope: unknown): Envelope {
  const { seq, event, ...rest } = envelope as Envelope
  const said = JSON.stringify(envelope).slice(0, 500)
  if (Object.keys(rest).length > 0) throw new Error(`an envelope has a seq and an event, nothing else: ${said}`)
  if (!Number.isSafeInteger(seq) || seq < 1) throw new Error(`seq is not a number from 1 on: ${said}`)
  const { type } = event
  if (!EventType.safeParse(type).success) throw new Error(`${String(type)} is no type of event: ${said}`)
  if (event.category !== TYPES[type]) throw new Error(`${type} is not of the category ${event.category}: ${said}`)
  if (JSON.stringify(envelope).length > (type === 'monitor_screenshot' ? 16 : 1) * MAX_LENGTH) throw new Error(`the event is too long: ${said}`)
  if (type === 'monitor_events_lost') {
    Lost.parse(event.data ?? {})
    return envelope as Envelope
  }
  const { data, truncated } = event
  const schema = older.get(type)
  if (schema) conforms(schema, NEWER_TARGETS.has(data?.target_type) ? { ...event, data: { ...data, target_type: 'other' } } : event)
  if (type === 'cdp_command') {
    // Report one clear error, not one for each command.
    const definition = newest['x-cdp-commands'][String(data?.method)]
    if (!definition) throw new Error(`${String(data?.method)} is no command of the contract: ${said}`)
    check(definition, data)
  }
  // The contract requires data in some events, but a truncated event may have none.
  if (!(truncated && data === undefined)) check(newest['x-event-types'][type]!, event)
  return envelope as Envelope
}
