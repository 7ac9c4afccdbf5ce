// The kinds of ready instances: which sessions they serve, and how a session finds them.
import { expect, test } from 'vitest'
import { USUAL_MAX_SCREEN } from '../../../../instances/driver.ts'
import { DEFAULT_VIEWPORT } from '../options/contract.ts'
import { headlessKind, readyState, stealthKind, usualKind } from './kinds.ts'

const wanted = (options: object) => ({
  project: 'p',
  name: undefined,
  tags: {},
  timeoutSeconds: 60,
  options: { headless: false, stealth: false, kiosk_mode: false, viewport: DEFAULT_VIEWPORT, maxScreen: USUAL_MAX_SCREEN, ...options },
})
const large = { viewport: { width: 3000, height: 2000, refresh_rate: 60 } }
const kinds = [stealthKind(4), headlessKind(4), usualKind(1, 4)]

test.each([
  ['headful', {}, ['usual']],
  ['headless', { headless: true }, ['headless', 'usual']],
  ['kiosk', { kiosk_mode: true }, ['headless', 'usual']],
  ['stealth', { stealth: true }, ['stealth', 'usual']],
  ['headless stealth', { headless: true, stealth: true }, ['stealth', 'headless', 'usual']],
  ['a larger screen', large, []],
  ['headless on a larger screen', { headless: true, ...large }, []],
])('%s sessions are served by these kinds, best first', (_what, options, names) => {
  expect(kinds.filter(({ serves }) => serves(wanted(options))).map(({ name }) => name)).toEqual(names)
})

test('a session is fitted to what its kind is not yet; a kind of another version counts as usual', () => {
  expect(readyState(kinds, 'headless')).toEqual({ viewport: DEFAULT_VIEWPORT, fullscreen: true, stealth: false })
  expect(readyState(kinds, 'stealth')).toEqual({ viewport: DEFAULT_VIEWPORT, fullscreen: false, stealth: true })
  expect(readyState(kinds, 'usual')).toEqual({ viewport: DEFAULT_VIEWPORT, fullscreen: false, stealth: false })
  expect(readyState(kinds, 'pool of another version')).toEqual({ viewport: DEFAULT_VIEWPORT, fullscreen: false, stealth: false })
})
