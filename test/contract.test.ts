// Tests the contract check that other tests use. It must reject every answer that either SDK release would reject.
import { expect, test } from 'vitest'
import { conforms } from './support/contract.ts'

const session = {
  session_id: 'htzv5orfit78e1m2biiifpbv',
  created_at: '2026-01-01T00:00:00Z',
  cdp_ws_url: 'ws://x',
  webdriver_ws_url: 'ws://x',
  headless: false,
  stealth: false,
  timeout_seconds: 60,
}
const newer = { region: 'us-east', memory: '2GiB' }

test('answers are checked against the schemas of SDK 0.84 and of the newest release', () => {
  expect(() => conforms('BrowserCreateResponse', { ...session, ...newer })).not.toThrow()
  expect(() => conforms('BrowserListResponse', [{ ...session, ...newer }], true)).not.toThrow()
  expect(() => conforms('BrowserCreateResponse', { ...session, ...newer, headless: 'no' })).toThrow(/contract.*headless/s)
  expect(() => conforms('BrowserCreateResponse', session)).toThrow(/newest.*region/s)
  expect(() => conforms('BrowserCreateResponse', { ...session, ...newer, memory: '3GiB' })).toThrow(/newest.*memory/s)
})
