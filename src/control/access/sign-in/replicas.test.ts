// Sign-ins with two replicas: each knows those of the other, and none outlives its end.
import { createHash, randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { asPage } from '../../../../test/support/people.ts'
import { endAll, share, startFastReplica } from '../../../../test/support/replicas.ts'
import { form } from '../../../../test/support/visitor.ts'

/** What was checked is remembered for 2 s. */
const ENDS_MS = 5_000
const BACK = 'http://localhost:5000/callback'

test('what begins at one is known at the other, and ends at both', { timeout: 60_000 }, async () => {
  const shared = await share({ COB_WARM_BROWSERS: '0', COB_WARM_BROWSERS_MAX: '0' })
  await using scope = new AsyncDisposableStack()
  scope.defer(async () => {
    await endAll(shared, true)
    const left = readdirSync(shared.paths.instances)
    await shared[Symbol.asyncDispose]()
    expect(left).toEqual([])
  })
  const one = await startFastReplica(shared, true)
  scope.defer(() => one.stop())
  const two = await startFastReplica(shared, true)
  scope.defer(() => two.stop())

  const { key } = (await (await one.send('POST', '/org/api_keys', { name: 'signs in' })).json()) as { key: string }
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: key }) }
  const cookie = (await fetch(`${one.url}/sign-in/key`, init)).headers.getSetCookie()[0]!.split(';')[0]!
  const [atOne, atTwo] = [asPage(one.url, cookie), asPage(two.url, cookie)]
  expect((await atTwo.fetch('/me')).status).toBe(200)

  // Allowed at one, the token taken at the other.
  const verifier = randomBytes(32).toString('base64url')
  const request = {
    client_id: 'kernel-cli',
    redirect_uri: BACK,
    response_type: 'code',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }
  const { redirect_to: to } = (await (await atOne.send('POST', '/authorize', { request, allow: true })).json()) as { redirect_to: string }
  const code = new URL(to).searchParams.get('code')!
  const call = async (url: string, path: string, fields: Record<string, string>) => fetch(url + path, form({ client_id: 'kernel-cli', ...fields }))
  const first = { grant_type: 'authorization_code', code, redirect_uri: BACK, code_verifier: verifier }
  // At both at once: one of them gets it, and the other does not get another.
  const answers = await Promise.all([one.url, two.url].map((url) => call(url, '/token', first)))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400])

  const again = (await (await atTwo.send('POST', '/authorize', { request, allow: true })).json()) as { redirect_to: string }
  const next = { ...first, code: new URL(again.redirect_to).searchParams.get('code')! }
  const tokens = (await (await call(one.url, '/token', next)).json()) as { access_token: string; refresh_token: string }
  const refreshed = await Promise.all(
    [one.url, two.url].map((url) => call(url, '/token', { grant_type: 'refresh_token', refresh_token: tokens.refresh_token })),
  )
  expect(refreshed.map(({ status }) => status).toSorted()).toEqual([200, 400])
  const asked = async (url: string) => (await fetch(`${url}/me`, { headers: { authorization: `Bearer ${tokens.access_token}` } })).status
  expect([await asked(one.url), await asked(two.url)]).toEqual([200, 200])
  expect((await call(one.url, '/revoke', { token: tokens.access_token })).status).toBe(200)
  expect(await asked(one.url)).toBe(401)
  await expect.poll(() => asked(two.url), { timeout: ENDS_MS }).toBe(401)

  expect((await atOne.send('POST', '/sign-out')).status).toBe(204)
  expect((await atOne.fetch('/me')).status).toBe(401)
  await expect.poll(async () => (await atTwo.fetch('/me')).status, { timeout: ENDS_MS }).toBe(401)
})
