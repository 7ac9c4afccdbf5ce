// Logins of fake browsers: the pages that a test has written, by the agent's real routes.
import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { newId } from '../../base/ids.ts'
import { dataPaths } from '../../base/paths.ts'
import { login } from '../../agent/login/contract.ts'
import { call } from '../../http/client.ts'
import { scratchDir } from '../../../test/support/scratch.ts'
import { USUAL_MAX_SCREEN } from '../driver.ts'
import { fakeDriver } from './fake.ts'
import { fakeLogins, type FakeLogin } from './login.ts'

const { signal } = new AbortController()
const SPEC = { viewport: { width: 640, height: 480, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN, apiPorts: [] }

test('a fake browser shows the pages that a test has written, one after each click, and keeps what was done', async () => {
  const paths = dataPaths(scratchDir('cob-fake-login-'))
  onTestFinished(() => rmSync(paths.root, { recursive: true }))
  await using driver = fakeDriver(paths)
  const id = newId()
  await using instance = await driver.start({ id, ...SPEC }, signal)
  const script: FakeLogin = { pages: [{ title: 'First' }, { title: 'Second' }], opened: [], acted: [] }
  fakeLogins.set(id, script)
  const ask = <R extends (typeof login)[keyof typeof login]>(route: R, body?: object) =>
    call(instance.agent, route as never, (body ? { body } : {}) as never, { signal })
  await ask(login.openLoginPage, { url: 'https://site.test/' })
  expect(await ask(login.readLoginPage)).toMatchObject({ title: 'First', generation: 1 })
  expect(await ask(login.settleLoginPage, { limit_ms: 0 })).toEqual({ by: 'nothing', is_quiet: false })
  const actions = [{ kind: 'click', ref: '1.0.0' }]
  expect(await ask(login.actOnLoginPage, { actions, hosts: ['site.test'] })).toEqual({ done: 1, problem: null, host: null })
  expect(await ask(login.settleLoginPage, { limit_ms: 0 })).toEqual({ by: 'navigated', is_quiet: true })
  expect(await ask(login.readLoginPage)).toMatchObject({ title: 'Second', generation: 2 })
  expect(await ask(login.actOnLoginPage, { actions, hosts: [] })).toMatchObject({ problem: 'gone' })
  expect(script).toMatchObject({
    opened: ['https://site.test/'],
    acted: [
      { actions, hosts: ['site.test'] },
      { actions, hosts: [] },
    ],
  })
})
