// The hosted login page in a real browser. A fake service answers its calls (test/support/logins.ts), checked against the contract's schemas.
import { createServer } from 'node:http'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import type { Choice, Field } from '../../src/control/logins/auth-connections/contract.ts'
import { hostedPath } from '../../src/control/logins/auth-connections/hosted-page.ts'
import { problemsOf, tooWide } from '../support/axe.ts'
import { CONNECTION_ID, playLogin, type Played, type PlayedLogin } from '../support/logins.ts'
import { servePages } from '../support/pages.ts'
import { invitePerson, SEEN_MS, type Person } from '../support/person.ts'
import { openSession, where } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'

const PHONE: BrowserContextOptions = { viewport: { width: 320, height: 640 }, hasTouch: true, isMobile: true }
const SECRET = 'kanarienvogel'

const field = (id: string, type: Field['type'], label: string, more: Partial<Field> = {}): Field => ({
  id,
  ref: id,
  type,
  label,
  required: true,
  observed_selector: null,
  reason: 'missing',
  ...more,
})
const choice = (id: string, type: Choice['type'], label: string, more: Partial<Choice> = {}): Choice => ({
  id,
  type,
  label,
  description: null,
  observed_selector: null,
  ...more,
})

const asks = (interaction_id: string, more: Played): Played => ({ flow_step: 'AWAITING_INPUT', interaction_id, ...more })
const PASSWORD = [field('f1', 'identifier', 'Email address'), field('f2', 'password', 'Password')]
const SSO = [choice('google', 'sso_provider', 'Continue with Google')]
const METHODS = [
  choice('m1', 'mfa_method', 'Text message', { mfa_type: 'sms', masked_destination: '•••• 42' }),
  choice('m2', 'mfa_method', 'Authenticator app', { mfa_type: 'totp' }),
]
const CODE = [field('c1', 'totp_code', 'Code', { hint: 'Six digits' })]
const ENDED: Played = { flow_status: 'SUCCESS', flow_step: 'COMPLETED' }

let person: Person
let login: PlayedLogin
/** The site that the page returns the person to. */
let back: AsyncDisposable & { url: string }

beforeAll(async () => {
  person = await invitePerson()
  const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<title>back</title>'))
  const { port, ...rest } = await serveSockets(server)
  back = { url: `http://127.0.0.1:${port}`, ...rest }
})
afterAll(async () => {
  await person[Symbol.asyncDispose]()
  await back[Symbol.asyncDispose]()
})
beforeEach(async () => {
  login = await playLogin()
})
afterEach(async () => {
  await person.leave()
  await login[Symbol.asyncDispose]()
})

const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name }).waitFor()
const open = async (query: Record<string, string> = {}, options: BrowserContextOptions = {}): Promise<Page> => {
  const page = await person.newPage(options)
  await page.goto(login.hosted(query))
  return page
}
/** Opens the page and accepts. */
const enter = async (query: Record<string, string> = {}, options: BrowserContextOptions = {}): Promise<Page> => {
  const page = await open(query, options)
  await page.getByRole('button', { name: 'Continue' }).click()
  return page
}
const press = async (page: Page, ...keys: string[]) => {
  for (const key of keys) await page.keyboard.press(key)
}
const problem = (page: Page) => page.getByRole('alert')
const arrivesAt = async (page: Page, url: string) => {
  await page.waitForURL((found) => found.href.startsWith(url), { timeout: SEEN_MS })
  return Object.fromEntries(new URL(page.url()).searchParams)
}

describe('a person', () => {
  test('logs in by keyboard alone, is told each step, and is led back', async () => {
    const page = await open({ success_url: `${back.url}/done?kept=1` })
    /** The focused heading; the next Tab continues from it. */
    const step = async (name: string) => {
      await heading(page, name)
      expect(await page.evaluate('document.activeElement.textContent')).toBe(name)
    }
    await step('Log in to shop.example')
    await expect.poll(() => page.locator('#lead').textContent()).toContain('wants to log in to shop.example for the profile work')
    await press(page, 'Tab', 'Enter')
    await step('Opening the login page…')
    login.play(asks('i1', { fields: PASSWORD, choices: SSO }))
    await step('Log in to shop.example')
    await press(page, 'Tab')
    await page.keyboard.type('ada@shop.example')
    await press(page, 'Tab')
    await page.keyboard.type(` ${SECRET} `)
    await press(page, 'Enter')
    await step('Logging in…')
    login.play(asks('i2', { choices: METHODS }))
    await step('Choose how to confirm that it is you')
    expect(await page.getByRole('list', { name: 'Ways to confirm' }).getByRole('button').allTextContents()).toEqual([
      'Text message•••• 42',
      'Authenticator app',
    ])
    await press(page, 'Tab', 'Tab', 'Enter')
    await step('Logging in…')
    login.play(asks('i3', { fields: CODE }))
    await step('Enter the code')
    await press(page, 'Tab')
    await page.keyboard.type('123456')
    await press(page, 'Enter')
    await step('Logging in…')
    expect(login.answers).toEqual([
      { interaction_id: 'i1', field_values: { f1: 'ada@shop.example', f2: ` ${SECRET} ` } },
      { interaction_id: 'i2', selected_choice_id: 'm2' },
      { interaction_id: 'i3', field_values: { c1: '123456' } },
    ])
    login.play(ENDED)
    expect(await arrivesAt(page, `${back.url}/done`)).toEqual({ kept: '1', profile_name: 'work', domain: 'shop.example' })
  })

  test('finds fields that browsers and phones can help with', async () => {
    const page = await enter()
    const fields = [
      { ...PASSWORD[0]!, ref: 'email' },
      PASSWORD[1]!,
      field('f3', 'code', 'Code of the message'),
      field('f4', 'totp_code', 'Code of the app'),
      field('f5', 'text', 'Company', { required: false }),
      field('f6', 'text', 'Region', { options: ['Europe', 'America'] }),
      field('f7', 'totp_secret', 'Key'),
    ]
    login.play(asks('i1', { fields }))
    await heading(page, 'Log in to shop.example')
    await page.locator('select').waitFor()
    const received = await page
      .locator('form input')
      .evaluateAll((inputs) => inputs.map((input) => ['type', 'autocomplete', 'inputmode'].map((name) => input.getAttribute(name))))
    expect(received).toEqual([
      ['text', 'username', 'email'],
      ['password', 'current-password', null],
      ['text', 'one-time-code', null],
      ['text', 'one-time-code', 'numeric'],
      ['text', 'off', null],
      ['password', 'off', null],
    ])
    await page.getByLabel('Email address').fill('ada')
    await page.getByLabel('Password', { exact: true }).fill('x')
    await page.getByRole('button', { name: 'Show Password' }).click()
    expect(await page.getByLabel('Password', { exact: true }).getAttribute('type')).toBe('text')
    await page.getByLabel('Code of the message').fill(' G-12 ')
    await page.getByLabel('Region').selectOption('America')
    await page.getByRole('button', { name: 'Continue', exact: true }).click()
    expect(await problem(page).textContent()).toBe('2 fields are missing.')
    expect(await page.evaluate('document.activeElement.labels[0].textContent')).toBe('Code of the app')
    await page.getByLabel('Code of the app').fill('1')
    await page.getByLabel('Key').fill('k')
    await page.getByRole('button', { name: 'Continue', exact: true }).click()
    await until('the answer', SEEN_MS, () => login.answers.length === 1)
    expect(login.answers[0]).toEqual({ interaction_id: 'i1', field_values: { f1: 'ada', f2: 'x', f3: 'G-12', f4: '1', f6: 'America', f7: 'k' } })
  })

  test('is told what the site refused, finds the name again, and the password gone', async () => {
    const page = await enter()
    login.play(asks('i1', { fields: PASSWORD }))
    await page.getByLabel('Email address').fill('ada')
    await page.getByLabel('Password', { exact: true }).fill(SECRET)
    await press(page, 'Enter')
    await heading(page, 'Logging in…')
    expect(await page.evaluate(`document.documentElement.outerHTML.includes('${SECRET}')`)).toBe(false)
    login.play(asks('i2', { website_error: 'Wrong password.', fields: [PASSWORD[0]!, { ...PASSWORD[1]!, reason: 'rejected' }] }))
    await heading(page, 'Log in to shop.example')
    expect(await problem(page).textContent()).toBe('shop.example says: Wrong password.')
    expect(await page.getByLabel('Email address').inputValue()).toBe('ada')
    const password = page.getByLabel('Password', { exact: true })
    expect([await password.inputValue(), await password.getAttribute('aria-invalid')]).toEqual(['', 'true'])
    await page.getByText('The site did not accept this.').waitFor()
  })

  test('acts on the screen of the browser, or takes the way out; the screen stays while the rest changes', async () => {
    const page = await enter()
    const outside = (more: Played): Played => ({
      flow_step: 'AWAITING_EXTERNAL_ACTION',
      interaction_id: 'i1',
      external_action_message: 'Solve the puzzle.',
      ...more,
    })
    const way = [choice('w', 'mfa_method', 'Use a password')]
    login.play(outside({ live_view_url: `${login.url}/browser/live/abc`, choices: way }))
    await heading(page, 'Your help is needed')
    const screen = page.frameLocator('iframe')
    await screen.getByRole('button', { name: 'Inside' }).evaluate((button) => (button.textContent = 'Marked'))
    login.play(
      outside({ interaction_id: 'i2', external_action_message: 'Solve the second puzzle.', live_view_url: `${login.url}/browser/live/abc`, choices: way }),
    )
    await page.getByText('Solve the second puzzle.').waitFor()
    await screen.getByRole('button', { name: 'Marked' }).waitFor()
    await page.getByRole('button', { name: 'Use a password' }).click()
    await until('the answer', SEEN_MS, () => login.answers.length === 1)
    expect(await page.locator('iframe').count()).toBe(0)
    // The page opens no frame for an address that is not a live view of this service.
    for (const url of [`${back.url}/browser/../evil`, 'javascript:parent.document.title=1', `${login.url}/docs`]) {
      login.play(outside({ interaction_id: url, live_view_url: url, external_action_message: url }))
      await page.getByText(url).waitFor()
      expect(await page.locator('iframe').count()).toBe(0)
    }
  })

  test('may refuse: nothing is sent, and the site behind is told', async () => {
    login.play(asks('i1', { fields: PASSWORD }))
    const page = await open({ error_url: 'http://127.0.0.1:1/never' })
    await page.route('http://127.0.0.1:1/**', (route) => route.fulfill({ body: '' }))
    await page.getByRole('button', { name: 'Cancel' }).click()
    expect((await arrivesAt(page, 'http://127.0.0.1:1/never')).message).toContain('canceled')
    expect(login.answers).toEqual([])
  })
})

describe('the link', () => {
  test('works once; its code leaves the address at once and is in no other request', async () => {
    const page = await enter({ success_url: 'myapp://done' })
    await heading(page, 'Opening the login page…')
    expect(page.url()).toBe(`${login.url}/auth/login/${CONNECTION_ID}?success_url=myapp%3A%2F%2Fdone`)
    const [first, ...others] = login.requests
    expect(first!.url).toContain(login.code)
    expect(others.filter(({ url, headers }) => url.includes(login.code) || headers.referer !== undefined)).toEqual([])
    const second = await open({ error_url: back.url })
    await heading(second, 'This link does not work any more')
    expect(await second.getByRole('link').textContent()).toBe(`Go to ${new URL(back.url).host}`)
    const third = await person.newPage()
    await third.goto(`${login.url}/auth/login/${CONNECTION_ID}`)
    await heading(third, 'Open the link again')
  })

  test('goes on after a reload, without asking again, and is over after the end', async () => {
    const page = await enter()
    login.play(asks('i1', { fields: PASSWORD }))
    await page.getByLabel('Email address').waitFor()
    await page.reload()
    await page.getByLabel('Email address').waitFor()
    // Open the full link again, in the same tab.
    await page.goto(login.hosted())
    await page.getByLabel('Email address').waitFor()
    login.play(ENDED)
    await heading(page, 'You are logged in')
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    const count = login.requests.length
    await sleep(2_500)
    expect(login.requests).toHaveLength(count)
    await page.reload()
    await heading(page, 'Open the link again')
  })

  test('that would lead back to a script is refused, and not used up', async () => {
    const page = await open({ success_url: ' java\tscript:alert(1)' })
    await heading(page, 'This link cannot be used')
    expect(await page.locator('#lead').textContent()).toBe('Its maker must change it: success_url must not begin with javascript:')
    expect(login.requests.filter(({ method }) => method === 'POST')).toEqual([])
  })

  test('is not used up by a page that nobody sees', async () => {
    const page = await person.newPage()
    await page.addInitScript("Object.defineProperty(document, 'visibilityState', { get: () => globalThis.isSeen ? 'visible' : 'hidden' })")
    await page.goto(login.hosted())
    await heading(page, 'Opening your login…')
    expect([page.url().includes(login.code), login.requests.some(({ url }) => url.endsWith('/exchange'))]).toEqual([false, false])
    await page.evaluate("isSeen = true; document.dispatchEvent(new Event('visibilitychange'))")
    await heading(page, 'Log in to shop.example')
  })

  test('that failed leads to error_url with the reason; without one the person reads it', async () => {
    const failed: Played = { flow_status: 'FAILED', flow_step: 'COMPLETED', error_code: 'credentials_invalid', website_error: 'Wrong password.' }
    const page = await enter({ error_url: `${back.url}/failed` })
    login.play(failed)
    expect(await arrivesAt(page, `${back.url}/failed`)).toEqual({ code: 'credentials_invalid', message: 'Wrong password.' })
    await login[Symbol.asyncDispose]()
    login = await playLogin()
    login.play(failed)
    const other = await open()
    await heading(other, 'The login was not accepted')
    await other.getByText('Wrong password.').waitFor()
    await other.getByText('ask for a new link').waitFor()
  })

  test('whose login is over meanwhile says so, and leads to error_url', async () => {
    const page = await enter()
    login.play(asks('i1', { fields: CODE }))
    await page.getByLabel('Code').fill('1')
    login.faults.token = 401
    await press(page, 'Enter')
    await heading(page, 'This login has expired')
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    await login[Symbol.asyncDispose]()
    login = await playLogin()
    login.faults.token = 410
    const other = await open({ error_url: `${back.url}/failed` })
    expect(await arrivesAt(other, `${back.url}/failed`)).toEqual({ message: 'This login has expired.' })
  })
})

describe('a bad connection', () => {
  test('is told calmly and found again, and what was typed is kept', async () => {
    const page = await enter()
    login.play(asks('i1', { fields: PASSWORD }))
    await page.getByLabel('Email address').fill('ada')
    await page.getByLabel('Password', { exact: true }).fill(SECRET)
    login.faults.everything = true
    await press(page, 'Enter')
    await expect.poll(() => problem(page).textContent()).toContain('could not be sent')
    const connection = page.locator('#connection')
    await expect.poll(() => connection.textContent()).toBe('No connection to the service. Trying again…')
    login.faults.everything = false
    await expect.poll(() => connection.textContent()).toBe('')
    await page.getByRole('button', { name: 'Continue', exact: true }).click()
    await until('the answer', SEEN_MS, () => login.answers.length === 1)
    expect(login.answers[0]!.field_values).toEqual({ f1: 'ada', f2: SECRET })
  })

  test('an answer to a question that has changed brings the new question, and a refused one its reason', async () => {
    const page = await enter()
    login.play(asks('i1', { fields: PASSWORD }))
    await page.getByLabel('Email address').fill('ada')
    await page.getByLabel('Password', { exact: true }).fill(SECRET)
    login.faults.submit = 400
    await press(page, 'Enter')
    await expect.poll(() => problem(page).textContent()).toBe('the answer is refused')
    login.faults.submit = 409
    await press(page, 'Tab')
    await page.getByRole('button', { name: 'Continue', exact: true }).click()
    await expect.poll(() => problem(page).textContent()).toContain('something else by now')
    expect(await page.getByLabel('Password', { exact: true }).inputValue()).toBe('')
  })
})

describe('the page', () => {
  const steps: Record<string, { state: Played; heading: string }> = {
    discovering: { state: { flow_step: 'DISCOVERING' }, heading: 'Opening the login page…' },
    fields: {
      state: asks('i1', { fields: [...PASSWORD, field('s', 'text', 'Region', { options: ['Europe'] })], choices: SSO }),
      heading: 'Log in to shop.example',
    },
    rejected: {
      state: asks('i2', { website_error: 'Wrong.', fields: PASSWORD.map((asked) => ({ ...asked, reason: 'rejected' as const, hint: 'A hint' })) }),
      heading: 'Log in to shop.example',
    },
    methods: { state: asks('i3', { choices: METHODS }), heading: 'Choose how to confirm that it is you' },
    code: { state: asks('i4', { fields: CODE, choices: [choice('w', 'mfa_method', 'Another way')] }), heading: 'Enter the code' },
    external: {
      state: { flow_step: 'AWAITING_EXTERNAL_ACTION', interaction_id: 'i5', live_view_url: '/browser/live/abc', external_action_message: 'Solve it.' },
      heading: 'Your help is needed',
    },
    submitting: { state: { flow_step: 'SUBMITTING' }, heading: 'Logging in…' },
    error: { state: { flow_status: 'FAILED', flow_step: 'COMPLETED', error_code: 'bot_detected' }, heading: 'The site has blocked the login' },
  }
  const findings = async (page: Page) => [...(await problemsOf(page)), await tooWide(page)]

  test.each<[string, BrowserContextOptions]>([
    ['on a small phone, dark', { ...PHONE, colorScheme: 'dark', reducedMotion: 'reduce' }],
    ['on a desk, light', { colorScheme: 'light' }],
  ])('has no finding of axe in any step, %s', async (_name, options) => {
    const page = await open({}, options)
    const found: Record<string, (string | number)[]> = {}
    await page.getByRole('button', { name: 'Continue' }).waitFor()
    found.consent = await findings(page)
    await page.getByRole('button', { name: 'Continue' }).click()
    for (const [name, { state, heading: text }] of Object.entries(steps)) {
      login.play(state)
      await heading(page, text)
      await page.locator(`[data-step]`).waitFor()
      if (name === 'submitting' && options.reducedMotion)
        expect(await page.evaluate("document.getAnimations().filter(({ playState }) => playState === 'running').length")).toBe(0)
      found[name] = await findings(page)
    }
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((name) => [name, [0]])))
    expect(Object.keys(found)).toHaveLength(9)
  })

  test('shows hostile texts of a site as text, short, in their own direction, on a phone too', async () => {
    const evil = `<img src=x onerror="hacked=1"><script>hacked=1</script>\u202E\u2066\u0000reversed ${'W'.repeat(10_000)}`
    const pile = `Z${'\u0335\u0353'.repeat(400)}algo`
    await login[Symbol.asyncDispose]()
    login = await playLogin({ profileName: evil.slice(0, 60) })
    const page = await enter({}, PHONE)
    const errors: string[] = []
    page.on('pageerror', ({ message }) => errors.push(message))
    login.play(
      asks('i1', {
        website_error: evil,
        fields: [field('f', 'text', evil, { hint: evil, options: [evil, pile] }), field('g', 'text', pile)],
        choices: [choice('c', 'account', evil, { description: pile, masked_destination: evil }), choice('d', 'account', 'אבג abc')],
      }),
    )
    await page.getByRole('list', { name: 'Accounts' }).waitFor()
    const shown = (await page.evaluate('document.body.innerText')) as string
    expect(shown).toContain('<script>')
    expect(shown).not.toMatch(/[\u202A-\u202E\u2066-\u2069]/)
    expect(shown).not.toMatch(/W{401}|\p{M}{5}/u)
    expect([await findings(page), await page.evaluate('typeof hacked'), await page.locator('main img, main script').count(), errors]).toEqual([
      [0],
      'undefined',
      0,
      [],
    ])
    login.play({ flow_status: 'FAILED', flow_step: 'COMPLETED', error_code: '__proto__', error_message: evil })
    await heading(page, 'The login has failed')
    expect(await findings(page)).toEqual([0])
  })

  test('asks only this service, and its policy blocks nothing of its own', async () => {
    const page = await person.newPage()
    const said: string[] = []
    const asked = new Set<string>()
    page.on('console', (message) => said.push(message.text()))
    page.on('request', (request) => asked.add(new URL(request.url()).origin))
    await page.goto(login.hosted())
    await page.getByRole('button', { name: 'Continue' }).click()
    login.play({ flow_step: 'AWAITING_EXTERNAL_ACTION', live_view_url: `${login.url}/browser/live/abc` })
    await page.frameLocator('iframe').getByRole('button').waitFor()
    expect([said, [...asked].filter((origin) => origin !== 'null')]).toEqual([[], [login.url]])
  })
})

test('the screen in the page is the live view: what is clicked there is clicked in the browser of the login', async () => {
  await using pages = await servePages()
  await using cloud = await shareCloud()
  await using session = await openSession(cloud, { timeout_seconds: 600, headless: true, viewport: { width: 1024, height: 768 } })
  await session.page.goto(pages.url('watched.html'))
  const page = await person.newPage()
  // The service serves the page and the live view; the fake service answers the calls of the login.
  await page.route('**/auth/connections/**', async (route) => {
    const { pathname } = new URL(route.request().url())
    return route.fulfill({ response: await route.fetch({ url: login.url + pathname }) })
  })
  login.play({ flow_step: 'AWAITING_EXTERNAL_ACTION', interaction_id: 'i1', live_view_url: session.made.browser_live_view_url! })
  await page.goto(new URL(hostedPath(CONNECTION_ID, login.code), session.made.browser_live_view_url!).href)
  await page.getByRole('button', { name: 'Continue' }).click()
  const screen = page.frameLocator('iframe')
  await screen.locator('[data-state=live]').waitFor()
  const canvas = screen.locator('#screen canvas')
  const { width } = (await canvas.boundingBox())!
  const { x, y } = await where(session.page, '#paint')
  const wide = await canvas.evaluate((element) => (element as unknown as { width: number }).width)
  await canvas.click({ position: { x: (x * width) / wide, y: (y * width) / wide } })
  await until('the click', SEEN_MS, () => session.page.evaluate<boolean>('painted === 1'))
})
