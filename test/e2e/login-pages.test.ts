// The agent's side of logins, over a real Chromium: reading pages as login forms, typing into them, and that values go nowhere else.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Action, PageModel } from '../../src/agent/login/contract.ts'
import { until } from '../../src/base/wait.ts'
import { endpointOf } from '../support/agents.ts'
import type { Cloud } from '../support/cloud.ts'
import { runInside } from '../support/inside.ts'
import { controlIn, loginsOf, OWN, serveLogins, type LoginSite, type Made } from '../support/login-pages.ts'
import { shareCloud } from '../support/shelf.ts'
import { capturing, readTelemetry, type TelemetryEvents } from '../support/telemetry.ts'

const SEEN_MS = 10_000
const SECRET = 'c4nary-Pässwörd-77'

let foreign = ''
const pages: Record<string, Made> = {}
const page = (name: string, html: Made) => void (pages[name] = typeof html === 'string' ? `<!doctype html><meta charset=utf-8>${html}` : html)

let cloud: Cloud
let site: LoginSite
let id: string
let login: ReturnType<typeof loginsOf>
let told: TelemetryEvents
beforeAll(async () => {
  cloud = await shareCloud()
  site = await serveLogins(pages)
  const options = { telemetry: capturing('interaction', 'network', 'console', 'page', 'screenshot', 'control') }
  id = (
    await cloud.client.browsers.create(options as object).catch((error: unknown) => {
      console.log(cloud.log().slice(-6000))
      throw error
    })
  ).session_id
  told = await readTelemetry(cloud, id)
  login = loginsOf(await endpointOf(cloud, id))
  // The same machine by its address is another site, so its frames have a process of their own.
  foreign = /^[\d.]+/.exec((await runInside(cloud, id, `getent ahostsv4 ${OWN}`)).output)![0]
}, 90_000)
afterAll(async () => {
  await told[Symbol.asyncDispose]()
  await cloud.client.browsers.deleteByID(id)
  await site[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
})

/** Opens a page of the site and reads it. */
async function opened(name: string, host?: string): Promise<PageModel> {
  expect(await login.open(site.url(name, host))).toEqual({ error: null })
  return login.read()
}
const fill = (model: PageModel, name: string, value = SECRET): Action => ({ kind: 'fill', ref: controlIn(model, name).ref, value })
const click = (model: PageModel, name: string): Action => ({ kind: 'click', ref: controlIn(model, name).ref })
/** The bodies that were posted to a path. */
const posted = (path: string): Promise<string> =>
  until(`a request for ${path}`, SEEN_MS, () => site.log.find((one) => one.path.startsWith(`/${path}`))?.body, { everyMs: 20 })

test('a plain form is read with its labels, filled, sent, and what follows is waited for', async () => {
  page(
    'plain',
    `<title>Sign in</title><h1>Welcome</h1><p class=errornote>Wrong before</p>
     <form action=/plain-next method=post>
       <label for=user>User name</label><input id=user name=user autocomplete=username required>
       <label>Secret word <input name=pass type=password></label>
       <input name=org placeholder="Your company">
       <span id=lab>Server</span><select name=server aria-labelledby=lab><option>One</option><option>Two</option></select>
       <table><tr><td>City</td><td><input name=city></td></tr></table>
       <label><input type=checkbox name=stay value=yes> Stay signed in</label>
       <input type=hidden name=csrf value=token>
       <button id=go>Sign in</button>
     </form><a href="/forgot?x=1">Forgot?</a>`,
  )
  page('plain-next', '<title>Inside</title><h1>Hello</h1>')
  const model = await opened('plain')
  expect(model).toMatchObject({ title: 'Sign in', host: OWN, status: 200, error: null, http_auth: false, headings: ['Welcome'], is_popup: false })
  expect(model.alerts).toEqual([{ text: 'Wrong before', by: 'class', control: null }])
  const labels = model.controls.map(({ name, label, label_from }) => [name, label, label_from])
  expect(labels).toEqual([
    ['user', 'User name', 'for'],
    ['pass', 'Secret word', 'wrap'],
    ['org', 'Your company', 'placeholder'],
    ['server', 'Server', 'aria'],
    ['city', 'City', 'near'],
    ['stay', 'Stay signed in', 'wrap'],
    ['', 'Sign in', 'text'],
    ['', 'Forgot?', 'text'],
  ])
  expect(controlIn(model, 'user')).toMatchObject({ required: true, autocomplete: 'username', visible: true, covered: false, has_value: false, form: 0 })
  expect(controlIn(model, 'server').options).toEqual(['One', 'Two'])
  expect(controlIn(model, 'go').submits).toBe(true)
  expect(model.controls.at(-1)).toMatchObject({ href_host: OWN, href_path: '/forgot' })
  expect(model.forms).toEqual([{ frame: 0, action_host: OWN, action_path: '/plain-next', method: 'post' }])
  const actions: Action[] = [
    fill(model, 'user', 'jane@example.test'),
    fill(model, 'pass'),
    { kind: 'select', ref: controlIn(model, 'server').ref, option: 1 },
    { kind: 'check', ref: controlIn(model, 'stay').ref, checked: true },
    click(model, 'go'),
  ]
  expect(await login.act(actions)).toEqual({ done: 5, problem: null, host: null })
  expect(await login.settle()).toEqual({ by: 'navigated', is_quiet: true })
  expect(Object.fromEntries(new URLSearchParams(await posted('plain-next')))).toEqual({
    user: 'jane@example.test',
    pass: SECRET,
    org: '',
    server: 'Two',
    city: '',
    stay: 'yes',
    csrf: 'token',
  })
  expect(await login.read()).toMatchObject({ title: 'Inside', controls: [] })
  // What was read before is not acted on any more.
  expect(await login.act([fill(model, 'user')])).toMatchObject({ done: 0, problem: 'gone' })
})
