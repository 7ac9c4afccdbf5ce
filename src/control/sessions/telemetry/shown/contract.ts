// Events as pages show them to people: a line of the list, and its details.
import * as z from 'zod'
import { Category, EventType } from '../../../../agent/telemetry/contract.ts'

/**
 * How much of its events a link shows: everything; a brief form without bodies, headers, post data, typed text, pictures and the values in addresses; or
 * nothing. It is signed into the link.
 */
export const EventsShown = z.enum(['full', 'brief', 'none'])
export type EventsShown = z.output<typeof EventsShown>

/** Limits on the texts of a line. */
export const MAX_TEXT = 300
export const MAX_NOTE = 120
/** Limits on the texts of details. The longest of an event is a body of 8 KiB. */
export const MAX_VALUE = 2_000
export const MAX_BLOCK = 64 * 1024

/** A line of the list. Its texts come from a session: pages show them as text only. */
export const EventLine = z.object({
  seq: z.int(),
  /** Microseconds since 1970, on the session's clock. */
  ts: z.int(),
  type: EventType,
  category: Category,
  text: z.string().max(MAX_TEXT),
  note: z.string().max(MAX_NOTE).optional(),
  /** Whether the event is a failure, or may be one. */
  tone: z.enum(['bad', 'warn']).optional(),
})
export type EventLine = z.output<typeof EventLine>

/** The details of an event when a person opens it. */
export const EventDetails = z.object({
  /** Short facts: names and values. */
  facts: z.array(z.tuple([z.string(), z.string()])),
  /** Longer texts, each with a title. */
  blocks: z.array(z.tuple([z.string(), z.string()])),
  /** A picture: a PNG in base64. */
  png: z.string().optional(),
  /** Whether fields are missing because the link shows events in brief. */
  isBrief: z.boolean(),
})
export type EventDetails = z.output<typeof EventDetails>
