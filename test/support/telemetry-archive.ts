// A service in this process whose fake browsers capture telemetry, for the tests of a file, and reads of its archive.
import { afterAll, beforeAll, expect } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { startFastCloud, type FastCloud } from './fast-cloud.ts'
import { allOf, EVERYTHING, pageOf } from './kept-telemetry.ts'

export const STORED_MS = 20_000

export let cloud: FastCloud

/** Starts the service before the tests of a file. */
export function archiving(): void {
  beforeAll(async () => void (cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })))
  afterAll(() => cloud[Symbol.asyncDispose]())
}

export const create = async () => (await cloud.create({ telemetry: EVERYTHING, timeout_seconds: 600 })).session_id
export const end = async (id: string) => expect((await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
export const page = (id: string, query?: string) => pageOf(cloud.fetch, id, query)
export const all = (id: string, query?: string) => allOf(cloud.fetch, id, query)
/** The rows (runs of events) in which a session's events are stored. */
export const rows = (id: string) =>
  cloud.query<{ events: number; object: string | null; scope: string | null }>(
    'select events, object, scope from telemetry_segments where session_id = $1 order by first_seq',
    [id],
  )
export const stored = (id: string, count: number) =>
  until('events in the archive', STORED_MS, async () => (await rows(id)).reduce((sum, { events }) => sum + events, 0) >= count, { everyMs: 20 })
/** The texts of the lines that `say` writes. */
export const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, at) => `line ${from + at}`)
