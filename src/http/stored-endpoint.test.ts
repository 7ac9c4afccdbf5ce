// Endpoints in rows: reading the database is not enough to call an agent.
import { expect, test } from 'vitest'
import { fixedKeys } from '../base/keys.ts'
import { makeSealer } from '../base/sealed.ts'
import { storedEndpoints } from './stored-endpoint.ts'

const endpoints = storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'endpoints'))
const remote = { host: '10.0.0.1', port: 4000, certificate: 'PEM', credential: 'the-credential' }

test('an endpoint comes back as it was, without what an older agent lacks', () => {
  const older = { version: '0.0.9', lacks: ['clickMouse'] }
  for (const endpoint of [{ socketPath: '/run/agent.sock' }, remote]) {
    const stored = JSON.parse(JSON.stringify(endpoints.store({ ...endpoint, older }, 'one'))) as ReturnType<typeof endpoints.store>
    expect(endpoints.open(stored, 'one')).toEqual(endpoint)
  }
})

test('the credential is sealed, for its own session and with this key only', () => {
  const stored = endpoints.store(remote, 'one')
  expect(JSON.stringify(stored)).not.toContain(remote.credential)
  expect(() => endpoints.open(stored, 'other')).toThrow()
  expect(() => storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 2)), 'endpoints')).open(stored, 'one')).toThrow()
})
