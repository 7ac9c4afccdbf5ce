// session.new: the capabilities that a client may ask for, and the answer.
import { expect, test } from 'vitest'
import { makeNewSession } from './bidi-session.ts'

const newSession = () => makeNewSession({ product: 'Chrome/156.0.8078.79' })
const asks = (capabilities: unknown) => ({ id: 1, method: 'session.new', params: { capabilities } })
const mappers = {
  type: 'success',
  id: 1,
  result: {
    sessionId: 'unknown',
    capabilities: { acceptInsecureCerts: true, browserName: 'Chrome/156', browserVersion: '@a21c', platformName: '', webSocketUrl: '', userAgent: 'Mozilla' },
  },
}

test('session.new answers with the name, version and platform of the browser and a new session id', () => {
  const [first, second] = [newSession(), newSession()].map((session) => {
    session.asked(asks({}))
    return session.answered(mappers) as typeof mappers
  })
  expect(first!.result.capabilities).toEqual({
    acceptInsecureCerts: true,
    browserName: 'chrome',
    browserVersion: '156.0.8078.79',
    platformName: 'linux',
    setWindowRect: true,
    userAgent: 'Mozilla',
  })
  expect(first!.result.sessionId).toMatch(/^[\da-f]{8}-[\da-f-]{27}$/)
  expect(second!.result.sessionId).not.toBe(first!.result.sessionId)
})

test('the session gets the first capabilities that match', () => {
  const command = asks({
    alwaysMatch: { acceptInsecureCerts: true },
    firstMatch: [{ browserName: 'firefox' }, { browserName: 'Chrome', browserVersion: '156' }],
  })
  expect(newSession().asked(command)).toBeUndefined()
  expect(command.params.capabilities).toEqual({ alwaysMatch: { acceptInsecureCerts: true, browserName: 'Chrome', browserVersion: '156' } })
})

test.each([
  [{ browserName: 'firefox' }, 'browserName is "chrome", not "firefox"'],
  [{ platformName: 'windows' }, 'platformName is "linux", not "windows"'],
  [{ browserVersion: '15' }, 'browserVersion is "156.0.8078.79", not "15"'],
  [{ proxy: { proxyType: 'manual', httpProxy: 'a:1' } }, 'proxy: a proxyType of "manual" is not supported'],
])('capabilities that do not match the browser are refused: %o', (alwaysMatch, reason) => {
  expect(newSession().asked(asks({ alwaysMatch }))).toEqual({ error: 'session not created', message: `no capabilities match this browser: ${reason}` })
})

test('a second session.new on a connection is refused; after a failed one it may be repeated', () => {
  const session = newSession()
  session.asked(asks({}))
  session.answered({ type: 'error', id: 1, error: 'unknown error' })
  expect(session.asked(asks({}))).toBeUndefined()
  session.answered(mappers)
  expect(session.asked(asks({}))?.error).toBe('session not created')
})

test('malformed capabilities are passed to the mapper, whose error names the problem', () => {
  for (const capabilities of [
    undefined,
    5,
    { alwaysMatch: 5 },
    { firstMatch: [] },
    { alwaysMatch: { browserName: 'x' }, firstMatch: [{ browserName: 'y' }] },
  ]) {
    const command = asks(capabilities)
    expect(newSession().asked(command)).toBeUndefined()
    expect(command).toEqual(asks(capabilities))
  }
})
