// The site's texts, labels and addresses that a flow stores: they contain no stored or typed value, and are still enough for the next login and for checks.
import { expect, test } from 'vitest'
import { input, link, press, button } from '../../../../../test/support/page-models.ts'
import { code, endOf, enter, HOME, loginForm, plain, right, run, STORED, username, wrong, answering } from '../../../../../test/support/login-runs.ts'
import { World, type Site } from '../../../../../test/support/login-site.ts'
import { workOn } from './worker.ts'

/** The site repeats typed values. */
const echoing: Site = (_, state) => {
  if (state.user !== '') return HOME
  const said = state.step['said'] as string | undefined
  return {
    ...loginForm(said === undefined ? {} : { alerts: [{ text: said, by: 'role' }] }),
    press(_label, { Username: name = '', Password: word = '' }) {
      if (name === username && word === right) return enter(state)
      state.step['said'] = `Error: the password ${word} for the username ${name.toUpperCase()} is incorrect.`
      return '/login'
    },
  }
}

test('a site that repeats a stored name and password is told without them', async () => {
  const world = await run(new World(echoing).withStored({ username, password: wrong }))
  expect(world.row.end).toMatchObject({
    errorCode: 'credentials_invalid',
    websiteError: 'Error: the password [redacted] for the username [redacted] is incorrect.',
  })
})

test('a site that repeats what a person has typed is shown to the person without it, also after a restart', async () => {
  const world = new World(echoing)
  const said: (string | null | undefined)[] = []
  const answers = answering({ username, password: wrong }, STORED)
  world.person = (pause, step) => {
    said.push(world.row.websiteError)
    return answers(pause, step)
  }
  await run(world)
  expect(endOf(world)).toBe('SUCCESS')
  expect(said).toEqual([null, 'Error: the password [redacted] for the username [redacted] is incorrect.'])
})

test('a code that was sent is not repeated', async () => {
  const site = plain('/code', (path, state) =>
    path === '/code' && state.user === ''
      ? {
          parts: [input('Verification code', { autocomplete: 'one-time-code' }), button('Verify')],
          more: { headings: ['Verify'], ...(state.step['bad'] === true && { alerts: [{ text: `The code ${code} is wrong.`, by: 'role' as const }] }) },
          press: () => (state.step['bad'] === true ? enter(state) : ((state.step['bad'] = true), '/code')),
        }
      : undefined,
  )
  const world = new World(site).withStored(STORED)
  const said: unknown[] = []
  world.person = ({ fields }) => {
    said.push(world.row.websiteError)
    return { values: { [fields[0]!.id]: code } }
  }
  await run(world)
  expect(said).toEqual([null, 'The code [redacted] is wrong.'])
})

test('labels and hints that repeat a name are asked without it, and the same question stays the same', async () => {
  const site = plain('/code', (path, state) =>
    path === '/code' && state.user === ''
      ? {
          parts: [
            input(`Code for ${username}`, {
              autocomplete: 'one-time-code',
              placeholder: `sent to ${username}`,
              described: `We have sent a code to ${username}`,
            }),
            button('Verify'),
            press(`Text ${username} instead`),
          ],
          more: { headings: ['Two-factor authentication'] },
          press: () => enter(state),
        }
      : undefined,
  )
  const world = new World(site).withStored(STORED)
  let turns = 0
  world.person = ({ fields }) => (turns++ < 8 ? undefined : { values: { [fields[0]!.id]: code } })
  await run(world)
  expect(world.pauses).toHaveLength(1)
  expect(world.pauses[0]!.fields[0]).toMatchObject({ label: 'Code for [redacted]', placeholder: 'sent to [redacted]' })
})

test('an address that is not allowed is told without the name in it', async () => {
  const world = await run(new World(() => loginForm(), { connection: { login_url: `https://${username}.other.test/login` } }).withStored(STORED))
  expect(world.row.end).toMatchObject({ errorCode: 'domain_not_allowed', errorMessage: expect.stringContaining('[redacted].other.test') as string })
})

/** Like Adminer: without the name in the address, the user's page is not shown. */
const byAddress: Site = ({ searchParams }, state) =>
  state.user !== '' && searchParams.get('username') === username ? HOME : { ...loginForm(), press: () => enter(state, `/?server=a&username=${username}`) }

test('an address with the name in it is shown without it, and kept whole for checks', async () => {
  const world = await run(new World(byAddress).withStored(STORED))
  expect(world.row.end).toMatchObject({ state: 'SUCCESS', postLoginUrl: 'https://example.test/' })
  expect(world.landing).toBe(`https://example.test/?server=a&username=${username}`)
})

test('an address with the password in it is neither shown nor kept, nor opened a second time', async () => {
  const site: Site = (_, state) =>
    state.user !== '' ? HOME : { ...loginForm(), press: (_label, v) => enter(state, `/login?username=${v['Username']!}&password=${v['Password']!}`) }
  const world = await run(new World(site).withStored(STORED))
  expect(world.row.end).toMatchObject({ state: 'SUCCESS', postLoginUrl: 'https://example.test/login' })
  expect(world.landing).toBeUndefined()
  expect(world.opened.filter((url) => url.includes(right))).toEqual([])
})

const ACCOUNTS = ['kim@corp.test', 'ada@corp.test', 'ada@home.test']
/** A site that remembers accounts, of which the user chooses one. */
const choosing: Site = ({ pathname }, state) => {
  if (state.user !== '') return HOME
  if (pathname !== '/pw')
    return {
      parts: [...ACCOUNTS.map((label) => press(label)), press('Use another account')],
      more: { headings: ['Choose an account'] },
      press: (label) => ((state.step['chosen'] = label), '/pw'),
    }
  return { ...loginForm(), press: (_label, v) => (v['Password'] === right ? enter(state) : '/pw') }
}

test.each([0, 2])('an account that a person has chosen (%i) is shown to be chosen, kept without its name, and chosen again by itself', async (index) => {
  const label = ACCOUNTS[index]!
  const stored = { username: 'somebody-else', password: right }
  const first = new World(choosing).withStored(stored)
  first.person = ({ choices }) => ({ choice: choices.find((choice) => choice.label === label)!.id })
  await run(first)
  expect(endOf(first)).toBe('SUCCESS')
  expect(first.pauses.map(({ choices }) => choices.map((choice) => choice.label))).toEqual([[...ACCOUNTS, 'Use another account']])
  expect(JSON.stringify([first.row.memory, first.learned])).not.toContain(label)

  const again = new World(choosing, { connection: { learned: first.learned! }, flow: { type: 'reauth' } }).withStored(stored)
  await run(again)
  expect(endOf(again)).toBe('SUCCESS')
  expect(again.pauses).toEqual([])
})

/** An open question keeps the organization's name, which `run` would find. */
const workUntilEnd = async (world: World) => workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal)

test('a way whose label repeats a name is kept without it, and taken again', async () => {
  const site: Site = ({ pathname }, state) => {
    if (state.user !== '') return HOME
    if (pathname === '/org')
      return {
        parts: [link('Sign out', '/logout'), press(`Company of ${username}`), press('Other company')],
        more: { headings: ['Choose an organization'] },
        press: () => enter(state),
      }
    return { ...loginForm(), press: () => '/org' }
  }
  const first = new World(site).withStored(STORED)
  first.person = ({ choices }) => ({ choice: choices.find(({ label }) => label.startsWith('Company'))!.id })
  await workUntilEnd(first)
  expect(JSON.stringify([first.row.memory, first.row.end])).not.toContain(username)
  expect(first.learned!.steps.map(({ choice }) => choice?.label)).toContain('Company of [redacted]')
  const again = new World(site, { connection: { learned: first.learned! } }).withStored(STORED)
  await workUntilEnd(again)
  expect([endOf(again), again.pauses]).toEqual(['SUCCESS', []])
})
