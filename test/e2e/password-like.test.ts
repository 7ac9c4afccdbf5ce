// Which fields count as password-like, tested in a real page with the script that runs in every page of a session that captures input.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inPage } from '../../src/agent/telemetry/capture/world.ts'
import { forTests } from '../support/for-tests.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const sourceOf = (...names: string[]): string => names.map(inPage).join('')
const SCRIPT = sourceOf('tell', 'password-like')
const ALL = sourceOf('tell', 'password-like', 'passwords', 'interaction')

let session: Session
let page: Page
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  session = ended.use(await openSession(cloud))
  page = session.page
})
afterAll(() => ended.disposeAsync())

/** Whether keys for the element `#it` are secret after `change` has run in the page. */
async function isSecret(html: string, change = ''): Promise<boolean> {
  await page.goto('about:blank')
  await page.setContent(html)
  await page.evaluate(SCRIPT)
  // Mutation observers run after the script that made the change.
  await page.evaluate(`(async () => { ${change}; await 0 })()`)
  return (await page.evaluate(`BINDINGParts.passwordLike.isSecretTarget(document.querySelector('#it'))`)) as boolean
}

describe('password-like', () => {
  test.each([
    '<input id="it" type="password">',
    '<input id="it" type="PassWord">',
    '<input id="it" autocomplete="current-password">',
    '<input id="it" autocomplete="section-a new-password">',
    '<input id="it" autocomplete="one-time-code">',
    '<input id="it" autocomplete="cc-csc">',
    '<input id="it" autocomplete="cc-number">',
    '<input id="it" name="userPassword">',
    '<input id="it" name="user_pwd">',
    '<input id="it" name="client-secret">',
    '<input id="it" name="apiToken">',
    '<input id="it" name="otp">',
    '<input id="it" name="smsOtp2">',
    '<input id="it" name="card[pin]">',
    '<input id="it" name="CVV">',
    '<input id="it" aria-label="Security code">',
    '<input id="it" placeholder="Verification code">',
    '<input id="it" placeholder="Passwort">',
    '<input id="it" placeholder="Contraseña">',
    '<label for="it">PIN</label><input id="it">',
    '<label>Your password <input id="it"></label>',
    '<span id="l">One-time code</span><input id="it" aria-labelledby="l">',
    '<input id="it" maxlength="1" inputmode="numeric">',
    '<input id="it" type="tel" maxlength="1">',
    '<input id="it" name="code" maxlength="6" inputmode="numeric">',
    '<label>The code from your phone <input id="it" type="tel" maxlength="8"></label>',
    '<input id="it" style="-webkit-text-security: disc">',
    '<style>.dots { -webkit-text-security: circle }</style><textarea id="it" class="dots"></textarea>',
    '<div id="it" contenteditable aria-label="Password"></div>',
    '<textarea id="it" name="recovery_code"></textarea>',
    // A page cannot hide a field by form elements whose names shadow DOM methods.
    '<form><input name="getAttribute"><input name="parentNode"><input id="it" type="password"></form>',
  ])('%s', async (html) => expect(await isSecret(html)).toBe(true))

  test.each([
    ['a switch that shows the password', '<input id="it" type="password">', `it.type = 'text'`],
    ['a switch by an attribute', '<input id="it" type="password">', `it.setAttribute('type', 'text')`],
    ['a field that takes the place of one', '<input id="a" name="p1" type="password">', `a.type = 'text'; a.outerHTML = '<input id="it" name="p1">'`],
    ['an element of the page with an inside that is closed', '<x-field id="it"></x-field>', `it.attachShadow({ mode: 'closed' })`],
    ['an element that has the focus only by a closed inside', '<div id="it"></div>', `it.attachShadow({ mode: 'closed' })`],
    [
      'an element that can have the focus, when a closed inside has it',
      '<div id="it" tabindex="0"></div>',
      `const field = document.createElement('input'); it.attachShadow({ mode: 'closed' }).append(field); field.focus()`,
    ],
    [
      'a body with a closed inside that has the focus',
      '<body id="it"></body>',
      `const field = document.createElement('input'); document.body.id = 'it'; it.attachShadow({ mode: 'closed' }).append(field); field.focus()`,
    ],
    ['an element out of which a text has come that was typed', '<li id="it" tabindex="0"></li>', `BINDINGParts.passwordLike.foundClosed(it)`],
    ['a field with a value that was one', '<input id="it">', `BINDINGParts.passwordLike.remember('hunter22'); it.value = 'my hunter22'`],
  ])('%s', async (_, html, change) => expect(await isSecret(html, change)).toBe(true))
})

test.each([
  '<input id="it">',
  '<input id="it" type="email" name="email" autocomplete="username">',
  '<input id="it" type="search" name="q" placeholder="Search">',
  '<input id="it" name="shippingAddress">',
  '<input id="it" name="opinion">',
  '<input id="it" name="company">',
  '<input id="it" name="hotpot">',
  '<input id="it" name="spinner">',
  '<input id="it" type="tel" name="phone">',
  '<input id="it" type="number" name="amount">',
  '<input id="it" inputmode="numeric" maxlength="5" name="zipcode">',
  '<input id="it" maxlength="8" name="code">',
  '<input id="it" type="submit" name="resetPassword">',
  '<textarea id="it" name="message"></textarea>',
  '<select id="it"><option>a</select>',
  '<div id="it" contenteditable aria-label="Message"></div>',
  '<button id="it">Log in</button>',
  '<canvas id="it" tabindex="0"></canvas>',
  '<ul><li id="it" tabindex="0">a</ul>',
  '<a id="it" href="/">a</a>',
])('not password-like: %s', async (html) => expect(await isSecret(html)).toBe(false))

test('a body has keys of its own', async () => {
  await page.setContent('<p>text</p>')
  await page.evaluate(SCRIPT)
  expect(await page.evaluate(`BINDINGParts.passwordLike.isSecretTarget(document.body)`)).toBe(false)
})

/** Runs all scripts in a page, and returns what they tell the agent. */
async function telling(html: string): Promise<{ values: () => Promise<string[]>; clicks: () => Promise<{ tag: string; text?: string; selector?: string }[]> }> {
  await page.goto('about:blank')
  await page.setContent(html)
  await page.evaluate(`globalThis.said = []; globalThis.BINDING = (text) => said.push(JSON.parse(text)); ${ALL}`)
  return {
    values: () => page.evaluate(`said.filter(({ part }) => part === 'passwords').map(({ value }) => value)`),
    clicks: () => page.evaluate(`said.filter(({ type }) => type === 'click')`),
  }
}

describe('what is learned', () => {
  test('a script that changes a field without end has little of it told; what is there when it is used is', async () => {
    const { values } = await telling('<input id="it" type="password"><button>Log in</button>')
    await page.evaluate(
      `for (let n = 1000; n < 6000; n++) { it.value = 'value-' + n; it.dispatchEvent(new Event('input', { bubbles: true })) }; it.value = 'the-real-one'`,
    )
    await page.click('button')
    const received = await values()
    expect(received).toContain('the-real-one')
    expect(received.length).toBeLessThan(1000)
  })

  test('a long value is told in pieces, and all of it', async () => {
    const { values } = await telling('<textarea id="it" name="private-key"></textarea>')
    const long = Array.from({ length: 120 }, (_, index) => `line${index}`).join(' ')
    await page.fill('#it', long)
    const received = await values()
    expect(received.every(({ length }) => length <= 256)).toBe(true)
    expect(received[0]! + received[1]!).toBe(long.slice(0, 512))
    expect(received.some((piece) => long.endsWith(piece))).toBe(true)
  })

  test('the digits of a card are told when they are all there', async () => {
    const { values } = await telling('<input id="it" name="cvc"><button>Pay</button>')
    await page.locator('#it').pressSequentially('737')
    expect(await values()).toEqual([])
    await page.click('button')
    expect(await values()).toEqual(['737'])
  })
})

describe('clicks', () => {
  test.each([
    ['a key with letters', '<input type="password"><button id="it">2 ABC</button>'],
    ['a key with a picture', '<input type="password"><button id="it" style="width: 40px; height: 40px"></button>'],
    ['a key of a pad', '<div class="pin-pad"><button id="it">5</button></div>'],
  ])('of a pad for secrets tell nothing but their place: %s', async (_, html) => {
    const { clicks } = await telling(html)
    await page.click('#it')
    expect(await clicks()).toEqual([expect.not.objectContaining({ text: expect.anything() })])
    expect((await clicks())[0]).not.toHaveProperty('selector')
  })

  test('are told in a page whose forms have the names of what the document has', async () => {
    const names = ['createTreeWalker', 'documentElement', 'scrollingElement', 'childNodes', 'checkVisibility', 'getRootNode']
    const { clicks } = await telling(
      `${names.map((name) => `<form name="${name}"></form>`).join('')}<form>${names.map((name) => `<input name="${name}">`).join('')}<b>Go on</b></form>`,
    )
    await page.click('b')
    expect(await clicks()).toEqual([expect.objectContaining({ tag: 'B', text: 'Go on', selector: expect.stringMatching(/b$/) })])
  })
})
