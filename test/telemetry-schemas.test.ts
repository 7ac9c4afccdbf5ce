// Tests the checker of events: it knows the same types as the agent's contract, and refuses what the published contract does not have.
import { expect, test } from 'vitest'
import { CDP_COMMANDS, EVENT_TYPES } from '../src/agent/telemetry/contract.ts'
import { assertEvent, NEWEST_COMMANDS, NEWEST_TYPES } from './support/telemetry-schemas.ts'

const event = (more: object = {}, data: object = {}) => ({
  seq: 1,
  event: {
    type: 'api_call',
    category: 'control',
    ts: 1,
    source: { kind: 'kernel_api' },
    data: { operation_id: 'TypeText', status: 200, duration_ms: 1.5, request_id: 'r', ...data },
    ...more,
  },
})

test('every type of event and every command of the newest release is one of ours, and the other way round', () => {
  expect(NEWEST_TYPES.toSorted()).toEqual(EVENT_TYPES.filter((type) => type !== 'monitor_events_lost').toSorted())
  expect(NEWEST_COMMANDS.toSorted()).toEqual([...CDP_COMMANDS].toSorted())
})

test.each([
  ['a field that the contract does not have', event({}, { text: 'typed' })],
  ['the category of another type', event({ category: 'platform' })],
  ['a text that is too long', event({}, { request_id: 'x'.repeat(70_000) })],
  ['a command with what was typed', event({ type: 'cdp_command', data: { method: 'Input.insertText', text_length: 1, text: 'x' } })],
])('an event with %s is refused', (_name, envelope) => {
  expect(() => assertEvent(envelope)).toThrow()
  expect(() => assertEvent(event())).not.toThrow()
})
