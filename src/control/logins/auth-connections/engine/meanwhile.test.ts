// Logins at a fake site during which a caller changes the connection, or answers.
import { describe, expect, test } from 'vitest'
import { button, input, link } from '../../../../../test/support/page-models.ts'
import { answering, code, endOf, enter, HOME, plain, right, run, STORED, username } from '../../../../../test/support/login-runs.ts'
import { World } from '../../../../../test/support/login-site.ts'
import { workOn } from './worker.ts'
import type { Connection } from './work.ts'

const typed = { username, password: right }

describe('what a person types is kept as the connection says at the end:', () => {
  const changed = async (before: Partial<Connection>, meanwhile: Partial<Connection>): Promise<World> => {
    const world = new World(plain(), { connection: before })
    const answers = answering(STORED)
    world.person = (...asked) => (Object.assign(world.connection, meanwhile), answers(...asked))
    await run(world)
    expect(endOf(world)).toBe('SUCCESS')
    return world
  }
  test.each<[string, Partial<Connection>, Partial<Connection>]>([
    ['nowhere, when it is not to be saved any more', {}, { save_credentials: false }],
    ['nowhere, when it has got a credential', {}, { credential_id: 'other' }],
    ['nowhere, when it has got another credential', { credential_id: 'credential' }, { credential_id: 'other' }],
    ['nowhere, when it has got an item of a provider', { credential_id: 'credential' }, { credential_id: null, provider_id: 'provider' }],
    ['nowhere, when it has got a credential in place of an item', { provider_id: 'provider' }, { provider_id: null, credential_id: 'other' }],
  ])('%s', async (_, before, meanwhile) => {
    const world = await changed(before, meanwhile)
    expect(world.kept).toEqual([])
    expect(world.row.end).not.toHaveProperty('credentialId')
  })
  test('in a new credential, when its own was deleted', async () => {
    expect((await changed({ credential_id: 'credential' }, { credential_id: null })).kept).toMatchObject([{ into: undefined, values: typed }])
  })
  test('in its credential, when that is to be saved now', async () => {
    const world = await changed({ save_credentials: false, credential_id: 'credential' }, { save_credentials: true })
    expect(world.kept).toMatchObject([{ into: 'credential', values: typed }])
  })
  test('nowhere, when it has got another credential before the service was killed', async () => {
    const world = new World(plain())
    const stop = new AbortController()
    world.person = () => {
      stop.abort(new Error('killed'))
      return undefined
    }
    await workOn((await world.flows.claimNext())!, world.tools(), stop.signal)
    world.connection.credential_id = 'other'
    world.person = answering(STORED)
    expect(endOf(await run(world))).toBe('SUCCESS')
    expect(world.kept).toEqual([])
  })
})

test('an answer that comes while the page is read, which has changed, counts', async () => {
  const CODE = 'Code from your text message'
  let answersAt = Infinity
  const world: World = new World(
    plain('/wait', (path, state) => {
      if (path !== '/wait') return undefined
      if (state.user !== '') return HOME
      const { pause } = world.row
      if (pause && world.reads >= answersAt && !state.step['answered']) {
        // From now on the page shows something new; the person has just sent the code.
        state.step['answered'] = true
        world.row.answer = { interactionId: pause.interactionId, values: { [pause.fields[0]!.id]: code }, choice: undefined }
      }
      return {
        parts: [input(CODE, { autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 6 }), button('Verify'), link('Try another way', '/other')],
        more: { headings: ['Two-step verification'], alerts: state.step['answered'] ? [{ text: 'Invalid attempt in another window.', by: 'role' }] : [] },
        press: (_, values) => (values[CODE] === code ? enter(state) : '/wait'),
      }
    }),
  ).withStored(STORED)
  world.person = () => {
    answersAt = Math.min(answersAt, world.reads + 1)
    return undefined
  }
  expect(endOf(await run(world))).toBe('SUCCESS')
  expect(world.pauses).toHaveLength(1)
})
