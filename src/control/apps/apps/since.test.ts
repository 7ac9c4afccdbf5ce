// `since` as log readers write it.
import { describe, expect, test } from 'vitest'
import { asFault } from '../../../http/fault.ts'
import { MAX_LOOKBACK_MS, parseSince } from './since.ts'

const NOW = new Date('2026-11-21T12:00:00.000Z')
const ago = (text: string): number => NOW.getTime() - parseSince(text, NOW)!.getTime()
const at = (text: string): string => parseSince(text, NOW)!.toISOString()

test.each([undefined, ''])('since=%j means everything that is kept', (text) => expect(parseSince(text, NOW)).toBeUndefined())

test.each([
  ['5m', 300_000],
  ['5s', 5_000],
  ['1h30m', 5_400_000],
  ['1.5h', 5_400_000],
  ['.5h', 1_800_000],
  ['1.h', 3_600_000],
  ['90m', 5_400_000],
  ['1500ms', 1_500],
  ['2h45m30.5s', 9_930_500],
  ['1000000us', 1_000],
  ['1000000µs', 1_000],
  ['1000000000ns', 1_000],
  ['0', 0],
  ['0s', 0],
  ['167h', MAX_LOOKBACK_MS],
])('the duration %s means %d ms ago', (text, ms) => expect(ago(text)).toBe(ms))

test.each([
  ['2026-11-20', '2026-11-20T00:00:00.000Z'],
  ['2026-11-20T15:04', '2026-11-20T15:04:00.000Z'],
  ['2026-11-20T15:04:05', '2026-11-20T15:04:05.000Z'],
  ['2026-11-20T15:04:05.678', '2026-11-20T15:04:05.678Z'],
  ['2026-11-20T15:04:05Z', '2026-11-20T15:04:05.000Z'],
  ['2026-11-20T15:04:05.678901234Z', '2026-11-20T15:04:05.678Z'],
  ['2026-11-20t15:04:05z', '2026-11-20T15:04:05.000Z'],
  ['2026-11-20T15:04:05+02:00', '2026-11-20T13:04:05.000Z'],
  ['2026-11-20T15:04:05-05:30', '2026-11-20T20:34:05.000Z'],
])('the time %s means %s', (text, time) => expect(at(text)).toBe(time))

test.each(['168h', '100000h', '2020-01-01', '0000-01-01', '2026-11-14'])('%s is too long ago: it means 167 h ago', (text) =>
  expect(ago(text)).toBe(MAX_LOOKBACK_MS),
)

test.each(['2026-11-22', '9999-12-31T23:59:59Z'])('%s is in the future: it means now', (text) => expect(ago(text)).toBe(0))

const GARBAGE = ['5', '5d', '1w', 'm', '-5m', '5 m', '5m ', '1h-30m', 'yesterday', '1e3s', '.h', '2026', '2026-13-01', '2026-02-30', '2026-11-20T24:00', '2026-11-20T15', '2026-11-20 15:04', '2026-11-20T15:60', '2026-11-20T15:04:05+2', '2026-11-20T15:04:05+25:00', '٥m', '\n5m', 'Infinity', 'NaNs'] // prettier-ignore
describe('an invalid value', () => {
  test.each(GARBAGE)('%j is refused, and the error names the field', (text) => {
    const thrown = (() => {
      try {
        return void parseSince(text, NOW)
      } catch (error) {
        return asFault(error)
      }
    })()
    expect([thrown?.status, thrown?.message.startsWith('since: ')]).toEqual([400, true])
  })
})
