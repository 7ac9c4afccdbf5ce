// Which pages may speak MCP, as a table.
import { expect, test } from 'vitest'
import { assertOwnOrigin } from './origin.ts'

test.each([
  [undefined, 'http://any.example', false],
  ['http://127.0.0.1:2627', 'http://127.0.0.1:2627', false],
  ['http://[::1]:2627', 'http://[::1]:2627', false],
  ['http://localhost:2627', 'http://localhost:2627', false],
  ['http://cob.localhost', 'http://cob.localhost', false],
  ['http://192.0.2.1', 'http://192.0.2.1', false],
  ['https://cob.example', 'https://cob.example', true],
])('%s may ask %s (set: %s)', (origin, own, isSet) => expect(() => assertOwnOrigin(origin, own, isSet)).not.toThrow())

test.each([
  ['http://any.example', 'http://any.example', false],
  ['http://localhost.example', 'http://localhost.example', false],
  ['http://127.0.0.1:2628', 'http://127.0.0.1:2627', false],
  ['https://127.0.0.1:2627', 'http://127.0.0.1:2627', false],
  ['http://cob.example', 'https://cob.example', true],
  ['https://cob.example.evil', 'https://cob.example', true],
  ['null', 'https://cob.example', true],
  ['', 'https://cob.example', true],
])('%s may not ask %s (set: %s)', (origin, own, isSet) => expect(() => assertOwnOrigin(origin, own, isSet)).toThrow(/are refused/))
