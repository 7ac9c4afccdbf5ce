// The pure rules of managed auth: whether a login can be repeated, which answer a submission is, when a connection is checked.
import { describe, expect, test } from 'vitest'
import { Fault } from '../../../http/fault.ts'
import { afterCheck, afterFailure, afterLogin, backoffSeconds, MOST_INCONCLUSIVE, nextCheck, rescheduled, resultOf } from './check-rules.ts'
import { Submission } from './contract.ts'
import type { Pause, Requirement } from './flow.ts'
import { canReauth, type Source } from './reauth.ts'
import { answerTo } from './submit.ts'

describe('whether the service could log in again', () => {
  const learned = (requirements: Requirement[], keys: string[] = []) => ({ requirements, keys })
  const stored = (keys: string[] = ['username', 'password'], hasTotp = false): Source => ({ kind: 'stored', keys, hasTotp, version: 'c 1' })
  const external: Source = { kind: 'external', version: 'p' }
  test.each<[string, ReturnType<typeof learned> | null, Source, boolean, string]>([
    ['before the first login', null, stored(), false, 'no_prior_successful_login'],
    ['before the first login, with a provider', null, external, false, 'no_prior_successful_login'],
    ['without values', learned(['identifier', 'password']), undefined, false, 'no_credential'],
    ['after a push', learned(['password', 'push']), stored(), false, 'requires_external_action'],
    ['after a link in a mail', learned(['email_link']), external, false, 'requires_external_action'],
    ['after a captcha', learned(['password', 'captcha']), stored(), false, 'requires_external_action'],
    ['after a passkey', learned(['passkey']), stored(), false, 'requires_external_action'],
    ['after a code by phone call', learned(['call']), stored(), false, 'requires_external_action'],
    ['after a code by SMS', learned(['password', 'sms']), stored(), false, 'requires_sms_code'],
    ['after a code by SMS, with a provider', learned(['password', 'sms']), external, false, 'requires_sms_code'],
    ['after a code by mail', learned(['password', 'email']), stored(), false, 'requires_email_code'],
    ['after a code of an app, without its secret', learned(['password', 'totp']), stored(), false, 'requires_totp_without_secret'],
    ['after a code of an app, with its secret', learned(['password', 'totp'], ['code']), stored(['password'], true), true, 'requirements_satisfiable'],
    ['after a code of an app, with a provider', learned(['password', 'totp']), external, true, 'external_credential'],
    ['with a credential that lacks a value', learned(['password', 'text'], ['username', 'password', 'company_id']), stored(), false, 'no_viable_plans'],
    ['with a credential that calls the user otherwise', learned(['identifier', 'password'], ['email', 'password']), stored(), true, 'has_credential'],
    ['after a login that needed nothing', learned([]), stored(), true, 'no_requirements_recorded'],
    ['after a login by another service', learned(['sso', 'password'], ['password']), stored(), true, 'requirements_satisfiable'],
  ])('%s', (_, last, source, can_reauth, can_reauth_reason) => {
    expect(canReauth(last, source, undefined)).toEqual({ can_reauth, can_reauth_reason })
  })
  test('not with values that the site has refused, but with others', () => {
    const no = { can_reauth: false, can_reauth_reason: 'no_viable_plans' }
    expect(canReauth(learned(['password']), stored(), 'c 1')).toEqual(no)
    expect(canReauth(learned(['password']), external, 'p')).toEqual(no)
    expect(canReauth(learned(['password']), stored(), 'c 0').can_reauth).toBe(true)
    expect(canReauth(learned(['password', 'sms']), stored(), 'c 1').can_reauth_reason).toBe('requires_sms_code')
  })
})

describe('a submission', () => {
  const field = (id: string, key: string, more: object = {}): Pause['fields'][number] => ({
    id,
    key,
    role: 'text',
    label: key,
    placeholder: '',
    required: true,
    hint: undefined,
    reason: 'missing',
    options: undefined,
    codeBy: undefined,
    selector: `//input[@name="${key}"]`,
    ...more,
  })
  const choice = (id: string, type: Pause['choices'][number]['type'], more: object = {}): Pause['choices'][number] => ({
    id,
    type,
    label: id,
    provider: undefined,
    mfa: undefined,
    maskedDestination: undefined,
    description: undefined,
    selector: `//a[@id="${id}"]`,
    ...more,
  })
  const pause: Pause = {
    interactionId: 'i1',
    fields: [
      field('f1', 'username'),
      field('f2', 'password', { role: 'password' }),
      field('f3', 'server', { required: false, role: 'select', options: ['North', 'South'] }),
    ],
    choices: [
      choice('c1', 'sso_provider', { provider: 'github' }),
      choice('c2', 'mfa_method', { mfa: 'sms' }),
      choice('c3', 'mfa_method', { mfa: 'sms' }),
      choice('c4', 'mfa_method', { mfa: 'other' }),
      choice('c5', 'account'),
      choice('c6', 'mfa_method', { mfa: 'passkey' }),
    ],
    external: undefined,
  }
  const answer = (given: object) => answerTo(pause, Submission.parse(given))
  const values = (found: object) => ({ interactionId: 'i1', values: found, choice: undefined })
  const chosen = (id: string) => ({ interactionId: 'i1', values: {}, choice: id })
  const BOTH = { f1: 'kim', f2: 'secret' }

  test.each<[string, object, object]>([
    ['by field ids', { field_values: BOTH }, values(BOTH)],
    ['by names', { fields: { username: 'kim', password: 'secret' } }, values(BOTH)],
    ['by names in place of ids', { field_values: { username: 'kim', password: 'secret' } }, values(BOTH)],
    ['by ids in place of names', { fields: BOTH }, values(BOTH)],
    ['with further keys', { field_values: { ...BOTH, more: 'x' } }, values(BOTH)],
    ['with an option', { field_values: { ...BOTH, f3: 'South' } }, values({ ...BOTH, f3: 'South' })],
    ['with an optional value that is empty', { field_values: { ...BOTH, f3: '' } }, values(BOTH)],
    ['with the present question', { field_values: BOTH, interaction_id: 'i1' }, values(BOTH)],
    ['beside empty fields', { fields: {}, selected_choice_id: 'c5' }, chosen('c5')],
    ['a choice', { selected_choice_id: 'c2' }, chosen('c2')],
    ['a method by its type', { mfa_option_id: 'sms' }, chosen('c2')],
    ['"another way" by its type', { mfa_option_id: 'switch' }, chosen('c4')],
    ['a method by its id', { mfa_option_id: 'c3' }, chosen('c3')],
    ['an account', { sign_in_option_id: 'c5' }, chosen('c5')],
    ['a button by its XPath', { sso_button_selector: '//a[@id="c1"]' }, chosen('c1')],
    ['a service by its name', { sso_provider: 'GitHub' }, chosen('c1')],
  ])('is taken: %s', (_, given, expected) => {
    expect(answer(given)).toEqual(expected)
  })

  const refusal = (work: () => unknown): { status: number; message: string } => {
    try {
      work()
    } catch (error) {
      if (error instanceof Fault) return { status: error.status, message: JSON.stringify(error.body()) }
      throw error
    }
    throw new Error('it was taken')
  }
  test.each<[string, object, number, string]>([
    ['without a required value', { field_values: { f1: 'kim' } }, 400, 'field_values.f2'],
    ['with an empty required value', { fields: { username: 'kim', password: '' } }, 400, 'fields.password'],
    ['with unknown ids only', { field_values: { f9: 'x' } }, 400, 'field_values.f9'],
    ['with what every object has', { field_values: { constructor: 'x' } }, 400, 'field_values.constructor'],
    ['with something that is no option', { field_values: { ...BOTH, f3: 'West' } }, 400, 'field_values.f3'],
    ['with an unknown choice', { selected_choice_id: 'c9' }, 400, 'selected_choice_id'],
    ['with a method that is not offered', { mfa_option_id: 'totp' }, 400, 'mfa_option_id'],
    ['with the XPath of something else', { sso_button_selector: '//a[@id="c5"]' }, 400, 'sso_button_selector'],
    ['with a service that is not offered', { sso_provider: 'google' }, 400, 'sso_provider'],
    ['for a question that is over', { field_values: BOTH, interaction_id: 'i0' }, 409, 'interaction_id'],
  ])('is refused: %s', (_, given, status, named) => {
    const refused = refusal(() => answer(given))
    expect(refused.status).toBe(status)
    expect(refused.message).toContain(named)
    expect(refused.message).not.toContain('secret')
  })

  test('is refused while nothing is asked, or nothing of its kind', () => {
    expect(refusal(() => answerTo(undefined, Submission.parse({ field_values: BOTH }))).status).toBe(400)
    expect(refusal(() => answerTo(undefined, Submission.parse({ field_values: BOTH, interaction_id: 'i1' }))).status).toBe(409)
    expect(refusal(() => answerTo({ ...pause, fields: [] }, Submission.parse({ field_values: BOTH }))).message).toContain('field_values')
    expect(refusal(() => answerTo({ ...pause, choices: [] }, Submission.parse({ sso_provider: 'github' }))).message).toContain('offers no choice')
  })

  test.each([{}, { fields: {} }, { field_values: BOTH, fields: BOTH }, { sso_provider: 'github', sso_button_selector: '//a' }, { selected_choice_id: '' }])(
    'must have exactly one way: %j',
    (given) => {
      expect(Submission.safeParse(given).success).toBe(false)
    },
  )
})

describe('health checks', () => {
  const NOW = Date.UTC(2026, 0, 1)
  const moment = { at: NOW, random: 0.5 }
  const connection = {
    health_checks: true,
    health_check_seconds: 3600,
    auto_reauth: true,
    status: 'AUTHENTICATED' as const,
    checks: {},
    checked_at: new Date(NOW),
  }
  const after = (seconds: number) => new Date(NOW + seconds * 1000)

  test('come after the interval, up to a tenth earlier or later', () => {
    expect([0, 0.5, 1].map((random) => nextCheck(connection, { at: NOW, random }))).toEqual([after(3240), after(3600), after(3960)])
    expect(nextCheck({ ...connection, health_checks: false }, moment)).toBeNull()
    expect(afterLogin({ ...connection, checks: { failures: 5 } }, moment)).toEqual({ next_check_at: after(3600), checks: '{}' })
  })

  test('that find the user logged in begin everything again', () => {
    const before = { ...connection, status: 'NEEDS_AUTH' as const, checks: { failures: 2, inconclusive: 1 } }
    expect(afterCheck(before, 'AUTHENTICATED', false, moment)).toEqual({
      status: 'AUTHENTICATED',
      checks: {},
      next_check_at: after(3600),
      reauth: false,
      isCheck: true,
    })
  })

  test.each([
    ['may and can', {}, true, true],
    ['cannot', {}, false, false],
    ['may not', { auto_reauth: false }, true, false],
    ['may not check', { health_checks: false }, true, false],
  ])('that find the user logged out have the service log in again where it %s', (_, more, can, reauth) => {
    expect(afterCheck({ ...connection, ...more }, 'NEEDS_AUTH', can, moment)).toMatchObject({ status: 'NEEDS_AUTH', reauth, isCheck: true })
  })

  test('that cannot tell change nothing, are repeated soon, and after the third the connection needs somebody', () => {
    let now = connection as Parameters<typeof afterCheck>[0]
    const waits: (Date | null)[] = []
    for (let count = 1; count <= MOST_INCONCLUSIVE; count++) {
      const next = afterCheck(now, 'inconclusive', true, moment)
      expect(next).toMatchObject({
        status: count === MOST_INCONCLUSIVE ? 'NEEDS_AUTH' : 'AUTHENTICATED',
        reauth: false,
        isCheck: false,
        checks: { inconclusive: count },
      })
      waits.push(next.next_check_at)
      now = { ...now, checks: next.checks }
    }
    expect(waits).toEqual([after(60), after(120), after(3600)])
  })

  test('that were not done, for reasons of ours, change nothing and are repeated, each time later, up to the interval', () => {
    let now = { ...connection, checks: { inconclusive: 2, failures: 1 } } as Parameters<typeof afterCheck>[0]
    const waits = Array.from({ length: 8 }, () => {
      const next = afterCheck(now, 'not_done', true, moment)
      expect(next).toMatchObject({ status: 'AUTHENTICATED', reauth: false, isCheck: false, checks: { inconclusive: 2, failures: 1 } })
      now = { ...now, checks: next.checks }
      return next.next_check_at
    })
    expect(waits).toEqual([60, 120, 240, 480, 960, 1920, 3600, 3600].map(after))
    expect(afterCheck({ ...now, health_checks: false }, 'not_done', true, moment).next_check_at).toBeNull()
    // The next completed check resets that count.
    expect(afterCheck(now, 'AUTHENTICATED', true, moment).checks).toEqual({})
    expect(afterCheck(now, 'inconclusive', true, moment)).toMatchObject({ status: 'NEEDS_AUTH', checks: { inconclusive: 3, failures: 1 } })
  })

  test.each([
    ['the site fails', { state: 'FAILED', errorCode: 'website_error' }, 'inconclusive'],
    ['the site takes it for a program', { state: 'FAILED', errorCode: 'bot_detected' }, 'inconclusive'],
    ['there is no room for a browser', { state: 'FAILED', errorCode: 'browser_error' }, 'not_done'],
    ['the service makes a mistake', { state: 'FAILED', errorCode: 'internal' }, 'not_done'],
    ['it waits too long, or the service was down', { state: 'EXPIRED' }, 'not_done'],
  ] as const)('are counted against the site only if it is the reason: %s', (_, end, result) => {
    expect(resultOf(end)).toBe(result)
  })

  test('that were changed are scheduled anew: at once when the new interval is over, not at all before the first login', () => {
    const earlier = { ...connection, checked_at: after(-3000) }
    expect(rescheduled({ ...earlier, health_check_seconds: 300 }, moment)).toEqual(after(0))
    expect(rescheduled({ ...earlier, health_check_seconds: 3600 }, moment)).toEqual(after(600))
    expect(rescheduled({ ...earlier, health_checks: false }, moment)).toBeNull()
    expect(rescheduled({ ...connection, checked_at: null }, moment)).toBeNull()
  })

  test('after re-logins that failed come later each time, never later than a day', () => {
    expect([1, 2, 3, 12, 100].map(backoffSeconds)).toEqual([60, 120, 240, 86_400, 86_400])
    let now = { ...connection, health_check_seconds: 300 } as Parameters<typeof afterFailure>[0]
    const waits = Array.from({ length: 5 }, () => {
      const next = afterFailure(now, moment)
      now = { ...now, checks: next.checks }
      expect(next.status).toBe('NEEDS_AUTH')
      return next.next_check_at
    })
    expect(waits).toEqual([300, 300, 300, 480, 960].map(after))
    expect(now.checks).toEqual({ failures: 5 })
  })
})
