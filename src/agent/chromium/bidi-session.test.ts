// Commands that the mapper's host answers itself: their form, commands before session.new, its capabilities and its answer.
import { expect, test } from 'vitest'
import { openSession, readCommand } from './bidi-session.ts'

const newSession = () => openSession({ product: 'Chrome/156.0.8078.79' })
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
  expect(newSession().asked(asks({ alwaysMatch }))).toEqual({
    type: 'error',
    error: 'session not created',
    message: `no capabilities match this browser: ${reason}`,
  })
})

test('a second session.new on a connection is refused; after a failed one it may be repeated', () => {
  const session = newSession()
  session.asked(asks({}))
  session.answered({ type: 'error', id: 1, error: 'unknown error' })
  expect(session.asked(asks({}))).toBeUndefined()
  session.answered(mappers)
  expect(session.asked(asks({}))).toMatchObject({ error: 'session not created' })
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

test.each([
  ['{"id":4,"method":"browsingContext.print","params":true}', 4, 'params must be an object; it is true'],
  ['{"id":4,"method":"session.status","params":[]}', 4, 'params must be an object; it is a list'],
  ['{"id":0,"method":"session.status","params":null}', 0, 'params must be an object; it is null'],
  ['{"id":5,"method":"session.status"}', 5, 'params must be an object; it is missing'],
  ['{"id":6,"method":7,"params":{}}', 6, 'method must be a string; it is 7'],
  ['{"id":9007199254740991,"params":{}}', 9007199254740991, 'method must be a string; it is missing'],
  ['{"id":7,"method":"session.status","params":{},"goog:channel":1}', 7, 'goog:channel must be a string; it is 1'],
])('a command that is refused for its form is answered with its id: %s', (text, id, message) => {
  expect(readCommand(text)).toEqual({ id, refusal: { error: 'invalid argument', message } })
})

test.each([
  ['{"id":-3,"method":"session.status","params":{}}', 'id must be an integer from 0 to 9007199254740991; it is -3'],
  ['{"id":1.5,"method":"session.status","params":{}}', 'id must be an integer from 0 to 9007199254740991; it is 1.5'],
  ['{"id":9007199254740992,"method":"session.status","params":{}}', 'id must be an integer from 0 to 9007199254740991; it is 9007199254740992'],
  ['{"id":"1","method":"session.status","params":{}}', 'id must be an integer from 0 to 9007199254740991; it is a string'],
  ['{"method":"session.status","params":{}}', 'id must be an integer from 0 to 9007199254740991; it is missing'],
  ['[]', 'a command is an object with id, method and params, this is a list'],
  ['nothing', 'the message is not JSON'],
])('without a valid id the answer has the id null: %s', (text, message) => {
  expect(readCommand(text)).toEqual({ id: null, refusal: { error: 'invalid argument', message } })
})

test('before session.new only session.status and session.new are answered; commands that follow it at once need not wait', () => {
  const session = newSession()
  const tree = { id: 2, method: 'browsingContext.getTree', params: {} }
  const status = () => session.asked({ id: 3, method: 'session.status', params: {} })
  const none = { type: 'error', error: 'invalid session id', message: 'this connection has no session yet: send session.new first' }
  expect(session.asked(tree)).toEqual(none)
  expect(session.asked({ ...tree, method: 'session.end' })).toEqual(none)
  expect(session.hasEnded()).toBe(false)
  expect(status()).toMatchObject({ type: 'success', result: { ready: true } })
  session.asked(asks({}))
  expect(session.asked(tree)).toBeUndefined()
  session.answered(mappers)
  expect(session.asked(tree)).toBeUndefined()
  expect(status()).toMatchObject({ type: 'success', result: { ready: false } })
  expect(session.asked({ ...tree, method: 'session.end' })).toEqual({ type: 'success', result: {} })
  expect(session.hasEnded()).toBe(true)
})
