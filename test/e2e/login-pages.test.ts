// The agent's part of a login, in a real Chromium: it reads pages as login forms, types into them, and sends values nowhere else.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Action, PageModel } from '../../src/agent/login/contract.ts'
import { until } from '../../src/base/wait.ts'
import { NO_PROMPTS } from '../../src/control/logins/auth-connections/browsers.ts'
import { endpointOf } from '../support/agents.ts'
import type { Cloud } from '../support/cloud.ts'
import { runInside } from '../support/inside.ts'
import { controlIn, loginsOf, OWN, serveLogins, type LoginSite, type Made } from '../support/login-pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'
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
let received: TelemetryEvents
beforeAll(async () => {
  // The test calls the agent directly. The service does not see these calls, so it would put the session in standby.
  cloud = await shareCloud({ COB_STANDBY_AFTER_SECONDS: '0' })
  site = await serveLogins(pages)
  const options = {
    timeout_seconds: 600,
    chrome_policy: NO_PROMPTS,
    telemetry: capturing('interaction', 'network', 'console', 'page', 'screenshot', 'control'),
  }
  id = (await cloud.client.browsers.create(options as object)).session_id
  received = await readTelemetry(cloud, id)
  login = loginsOf(await endpointOf(cloud, id))
  // The machine's IP address is another site than its name, so frames from it run in their own process.
  foreign = /^[\d.]+/.exec((await runInside(cloud, id, `getent ahostsv4 ${OWN}`)).output)![0]
}, 90_000)
afterAll(async () => {
  await received[Symbol.asyncDispose]()
  await cloud.client.browsers.deleteByID(id)
  await site[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
})

async function opened(name: string, host?: string): Promise<PageModel> {
  expect(await login.open(site.url(name, host))).toEqual({ error: null })
  return login.read()
}
const fill = (model: PageModel, name: string, value = SECRET): Action => ({ kind: 'fill', ref: controlIn(model, name).ref, value })
const click = (model: PageModel, name: string): Action => ({ kind: 'click', ref: controlIn(model, name).ref })
/** The bodies of POST requests to a path. */
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
  expect(model).toMatchObject({ title: 'Sign in', host: OWN, status: 200, error: null, http_auth: false, headings: ['Welcome'] })
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
  expect(await login.settle()).toEqual({ by: 'navigated' })
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
  // The agent refuses to act on an old reading of the page.
  expect(await login.act([fill(model, 'user')])).toMatchObject({ done: 0, problem: 'gone' })
})

test('buttons and links that a page has switched off are told, also when only what they are drawn with says so', async () => {
  page(
    'switched-off',
    `<table class="x-btn x-item-disabled"><tr><td><button>By a library</button></td></tr></table><ul><li class=disabled><a href=/x>By a class</a></li></ul>
     <div aria-disabled=true><button>By ARIA</button></div><button disabled>By itself</button><button>Not</button><div class=disabled><input name=typed></div>`,
  )
  const model = await opened('switched-off')
  expect(model.controls.map(({ name, label, enabled }) => [name || label, enabled])).toEqual([
    ['By a library', false],
    ['By a class', false],
    ['By ARIA', false],
    ['By itself', false],
    ['Not', true],
    ['typed', true],
  ])
})

test('fields in frames of this and of another site, in srcdoc frames and in shadow roots are read and filled', async () => {
  page('inner', `<label for=a>Inner</label><input id=a name=inner oninput="parent.postMessage(['inner', value], '*')">`)
  page(
    'inner-far',
    `<label for=b>Far</label><input id=b name=far oninput="parent.postMessage(['far', value], '*')"><div style="height:2000px"></div>
    <input name=deep oninput="parent.postMessage(['deep', value], '*')">`,
  )
  page('frames', (request, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8').end(`<!doctype html><title>Frames</title>
      <iframe src=/inner style="margin:20px"></iframe><iframe title=Other src="${site.url('inner-far', foreign)}" style="border:7px solid"></iframe>
      <iframe srcdoc="<input name=doc oninput=&quot;parent.postMessage(['doc', value], '*')&quot;>"></iframe>
      <iframe sandbox srcdoc="<input name=boxed>"></iframe>
      <open-one></open-one><closed-one></closed-one>
      <script>
        const seen = {}
        addEventListener('message', ({ data: [name, value] }) => { seen[name] = value; document.title = JSON.stringify(seen) })
        const make = (mode) => class extends HTMLElement { connectedCallback() {
          const root = this.attachShadow({ mode })
          root.innerHTML = '<label>In ' + mode + ' <input name=' + mode + '></label>'
          root.querySelector('input').oninput = ({ target }) => postMessage([mode, target.value], '*')
        } }
        customElements.define('open-one', make('open')); customElements.define('closed-one', make('closed'))
      </script>`)
  })
  const model = await opened('frames')
  expect(model.frames.map(({ host, parent }) => [host, parent]).toSorted()).toEqual(
    [
      [OWN, null],
      [foreign, 0],
      ['', 0],
      [OWN, 0],
      [OWN, 0],
    ].toSorted(),
  )
  expect(model.frames.find(({ host }) => host === foreign)).toMatchObject({ title: 'Other', visible: true })
  const names = ['inner', 'far', 'deep', 'doc', 'open', 'closed']
  for (const name of names) expect(controlIn(model, name), name).toMatchObject({ visible: true })
  expect(controlIn(model, 'closed').label).toBe('In closed')
  for (const name of names) expect(await login.act([fill(model, name, `to ${name} 1`)], [OWN, foreign]), name).toEqual({ done: 1, problem: null, host: null })
  // The page learns of the last field by a message, a moment after the field has its value.
  const filled = Object.fromEntries(names.map((name) => [name, `to ${name} 1`]))
  await expect.poll(async () => JSON.parse((await login.read()).title) as unknown).toEqual(filled)
  const { title } = await login.read()
  // Both the frame's host and the page's host must be allowed. A frame without a host gets nothing.
  const again = await login.read()
  expect(await login.act([fill(again, 'far')], [OWN])).toEqual({ done: 0, problem: 'host', host: foreign })
  expect(await login.act([fill(again, 'far')], [foreign])).toEqual({ done: 0, problem: 'host', host: OWN })
  expect(await login.act([fill(again, 'boxed')], [OWN])).toEqual({ done: 0, problem: 'host', host: '' })
  expect((await login.read()).title).toBe(title)
})

test('boxes for a code get real key events, one character each, wherever the page moves the focus', async () => {
  page(
    'boxes',
    `<title>-</title>${'<input maxlength=1 inputmode=numeric name=d>'.repeat(6)}<script>
      const all = [...document.querySelectorAll('input')], events = []
      all.forEach((box, at) => {
        box.id = 'd' + at
        box.onkeydown = (event) => { if (event.isTrusted && /^[0-9]$/.test(event.key)) events.push('down' + event.key + event.code) }
        box.onkeyup = () => all[at + 1]?.focus()
        box.oninput = (event) => { document.title = all.map(({ value }) => value || '_').join('') + ' ' + event.isTrusted + ' ' + events.join() }
      })
    </script>`,
  )
  const model = await opened('boxes')
  const boxes = [0, 1, 2, 3, 4, 5].map((at) => controlIn(model, `d${at}`).ref)
  const action: Action = { kind: 'fill', ref: boxes[0]!, value: '194053', boxes }
  expect(await login.act([action])).toEqual({ done: 1, problem: null, host: null })
  const events = '194053'
    .split('')
    .map((digit) => `down${digit}Digit${digit}`)
    .join()
  await until('all boxes', SEEN_MS, async () => (await login.read()).title === `194053 true ${events}`)
  expect(await login.act([{ ...action, value: '1234567' }])).toMatchObject({ done: 0, problem: 'gone' })
})

test('beside a frame of another host, keys carry no character of a code', async () => {
  page('thief-keys', `<script>addEventListener('keydown', ({ key }) => fetch('/stolen-key?' + encodeURIComponent(key)))</script><input id=t autofocus>`)
  page('boxes-beside', (request, response) => {
    response.setHeader('content-type', 'text/html').end(`<!doctype html><title>-</title>
      ${'<input maxlength=1 inputmode=numeric>'.repeat(4)}<iframe src="${site.url('thief-keys', foreign)}"></iframe><script>
      const all = [...document.querySelectorAll('input')], keys = []
      all.forEach((box, at) => { box.id = 'e' + at; box.onkeydown = ({ key, isTrusted }) => keys.push(key + isTrusted)
        box.onkeyup = box.oninput = () => { document.title = all.map(({ value }) => value).join('') + keys.join() } })
    </script>`)
  })
  const model = await opened('boxes-beside')
  const boxes = [0, 1, 2, 3].map((at) => controlIn(model, `e${at}`).ref)
  expect(await login.act([{ kind: 'fill', ref: boxes[0]!, value: '4711', boxes }])).toEqual({ done: 1, problem: null, host: null })
  await until('all boxes', SEEN_MS, async () => (await login.read()).title === `4711${Array(4).fill('Unidentifiedtrue').join()}`)
})

test('a page that takes the focus away, moves the field or goes elsewhere gets nothing into any other document', async () => {
  page(
    'thief',
    `<input id=t><script>
    const steal = () => { t.focus(); requestAnimationFrame(steal) }
    steal(); setInterval(() => t.focus(), 1)
    t.oninput = () => fetch('/stolen?' + encodeURIComponent(t.value)); addEventListener('keydown', ({ key }) => fetch('/stolen?key' + key))
  </script>`,
  )
  const beside = (more: string) => (request: unknown, response: { setHeader(name: string, value: string): { end(text: string): void } }) =>
    response.setHeader('content-type', 'text/html')
      .end(`<!doctype html><title>Hostile</title><input name=victim><iframe id=thief src="${site.url('thief', foreign)}"></iframe>
      <iframe id=same src=/empty-page></iframe><script>const victim = document.querySelector('[name=victim]'); ${more}</script>`)
  page('empty-page', '<p>empty')
  const hostile: Record<string, string> = {
    steal: `victim.onfocus = victim.onmousedown = () => thief.focus(); victim.addEventListener('beforeinput', () => { thief.focus(); thief.contentWindow.focus() })
      const steal = () => { thief.contentWindow.focus(); requestAnimationFrame(steal) }; steal()`,
    insert: `victim.addEventListener('beforeinput', () => { thief.focus(); thief.contentWindow.focus() })`,
    adopt: `victim.onfocus = () => same.contentDocument.body.append(victim)`,
    leave: `victim.onfocus = () => { location = '${site.url('thief', foreign)}' }`,
  }
  for (const [name, script] of Object.entries(hostile)) {
    page(`hostile-${name}`, beside(script) as Made)
    const model = await opened(`hostile-${name}`)
    const { problem, done } = await login.act([fill(model, 'victim')])
    // The value is in the field of the allowed page, or nowhere.
    expect([name, done === 1 || problem !== null]).toEqual([name, true])
  }
  // A page that navigates to another host between the read and the fill.
  const goes = Promise.withResolvers<void>()
  page('when', (request, response) => void goes.promise.then(() => response.end()))
  page('leaves', beside(`const image = new Image(); image.onerror = () => { location = '${site.url('thief', foreign)}' }; image.src = '/when'`) as Made)
  const model = await opened('leaves')
  goes.resolve()
  expect(await login.settle()).toMatchObject({ by: 'navigated' })
  expect(await login.act([{ kind: 'fill', ref: model.controls[0]!.ref, value: SECRET }])).toMatchObject({ done: 0 })
  expect(site.log.filter(({ path, host }) => path.startsWith('/stolen') && host.startsWith(foreign) && !/key(?:Shift|Unidentified)$/.test(path))).toEqual([])
})

test('a host that is not allowed gets nothing, also not by its name as a part of another', async () => {
  page('refused', '<input name=user>')
  const model = await opened('refused', foreign)
  expect(await login.act([fill(model, 'user')], [OWN])).toEqual({ done: 0, problem: 'host', host: foreign })
  const own = await opened('refused')
  expect(await login.act([fill(own, 'user')], ['cob.internal', `x.${OWN}`, `*.x.${OWN}`, `*.${OWN}`])).toEqual({ done: 0, problem: 'host', host: OWN })
  expect(await login.act([fill(own, 'user')], ['*.cob.internal'])).toMatchObject({ done: 1 })
  expect((await login.read()).controls[0]).toMatchObject({ has_value: true })
})

test('a page that takes a value and clears the field has got it; one whose field is gone or closed has not', async () => {
  page('takes', `<input name=user><input name=pass type=password oninput="value = ''"><input name=last>`)
  const takes = await opened('takes')
  expect(await login.act([fill(takes, 'user'), fill(takes, 'pass'), fill(takes, 'last')])).toEqual({ done: 1, problem: 'unusable', host: null, typed: true })
  page('goes', `<input name=user oninput="document.querySelector('[name=pass]').remove()"><input name=pass type=password>`)
  const goes = await opened('goes')
  expect(await login.act([fill(goes, 'user'), fill(goes, 'pass')])).toEqual({ done: 1, problem: 'gone', host: null, typed: false })
  page('closes', `<input name=user oninput="document.querySelector('[name=pass]').disabled = true"><input name=pass type=password>`)
  const closes = await opened('closes')
  expect(await login.act([fill(closes, 'user'), fill(closes, 'pass')])).toEqual({ done: 1, problem: 'unusable', host: null, typed: false })
})

test('nothing that was typed is in any event, and neither clicks nor keys of a login are told', async () => {
  page(
    'told',
    `<form action=/told-next><input name=user><input name=pin inputmode=numeric><button id=go>Go</button></form><script>
    document.querySelector('[name=user]').oninput = ({ target }) => { console.log('typed ' + target.value); history.replaceState(0, '', '?q=' + encodeURIComponent(target.value)) }
  </script>`,
  )
  page('told-next', '<title>Told</title>')
  const model = await opened('told')
  await login.act([fill(model, 'user', 'jane.canary@example.test'), fill(model, 'pin', '73519'), click(model, 'go')])
  await login.settle()
  await received.next('page_navigation_settled', ({ data }) => String(data.url).includes('/told-next'))
  await received.next('console_log')
  const all = JSON.stringify(received.all)
  for (const value of [SECRET, encodeURIComponent(SECRET), 'jane.canary', '73519', '194053']) expect(all).not.toContain(value)
  expect([...received.of('interaction_click'), ...received.of('interaction_key')]).toEqual([])
  expect(received.all.filter(({ source }) => /Login/.test(source.event ?? ''))).toEqual([])
})

test('a popup of the page is read while it is there, then its opener again', async () => {
  page('opener', `<title>Opener</title><button id=sso onclick="window.open('/popup', '', 'width=400,height=400')">With the other one</button>`)
  page(
    'popup',
    `<title>Popup</title><input name=user><button id=done onclick="opener.document.title = document.querySelector('input').value; window.close()">Done</button>`,
  )
  const model = await opened('opener')
  expect(await login.act([click(model, 'sso')])).toMatchObject({ done: 1 })
  expect(await login.settle()).toMatchObject({ by: 'popup' })
  const popup = await login.read()
  expect(popup).toMatchObject({ title: 'Popup' })
  expect(await login.act([fill(popup, 'user', 'in the popup'), click(popup, 'done')])).toMatchObject({ done: 2 })
  expect(await login.settle()).toMatchObject({ by: 'closed' })
  expect(await login.read()).toMatchObject({ title: 'in the popup' })
})

test('a message of the same page, a form that vanishes and nothing at all are told apart', async () => {
  page(
    'spa',
    `<div id=all><input name=user><button id=wrong>A</button><button id=right>B</button></div><div id=said class=help-error></div><script>
    wrong.onclick = () => setTimeout(() => { said.textContent = 'That was wrong' }, 300)
    right.onclick = () => fetch('/slow').then(() => { all.remove(); document.body.append('Done') })
  </script>`,
  )
  page('slow', (request, response) => void setTimeout(() => response.end(), 900))
  const model = await opened('spa')
  await login.act([fill(model, 'user', 'someone')])
  expect(await login.settle(700)).toEqual({ by: 'nothing' })
  await login.act([click(model, 'wrong')])
  expect(await login.settle()).toEqual({ by: 'changed' })
  const again = await login.read()
  expect(again.alerts).toEqual([{ text: 'That was wrong', by: 'class', control: null }])
  await login.act([click(again, 'right')])
  expect(await login.settle()).toEqual({ by: 'changed' })
  expect(await login.read()).toMatchObject({ controls: [], body: expect.stringContaining('Done') })
})

test('a button of a page without fields that is switched on is something new', async () => {
  page(
    'late',
    `<button id=out disabled>Log out</button><table class="x-item-disabled"><tr><td><button id=menu>Account</button></table><script>
    const later = (change) => setTimeout(change, 2500)
    later(() => { out.disabled = false; later(() => { menu.closest('table').className = '' }) })
  </script>`,
  )
  const on = (model: PageModel) => ['out', 'menu'].map((name) => controlIn(model, name).enabled)
  expect(on(await opened('late'))).toEqual([false, false])
  expect(await login.settle()).toEqual({ by: 'changed' })
  expect(on(await login.read())).toEqual([true, false])
  expect(await login.settle()).toEqual({ by: 'changed' })
  expect(on(await login.read())).toEqual([true, true])
})

test('passwords by HTTP, addresses without an answer, and dialogs stop nothing', async () => {
  page('basic', (request, response) => response.writeHead(401, { 'www-authenticate': 'Basic realm=x' }).end('<h1>No entry</h1>'))
  expect(await opened('basic')).toMatchObject({ http_auth: true, status: 401 })
  expect(await login.open('http://host.cob.internal:9/')).toEqual({ error: expect.stringMatching(/^net::ERR_/) })
  expect(await login.read()).toMatchObject({ error: expect.stringMatching(/^net::ERR_/), status: null, host: OWN })
  page(
    'dialogs',
    `<title>-</title><input name=user><script>onbeforeunload = (event) => event.preventDefault(); alert('The name\\nis wrong'); document.title = 'said ' + confirm('End the other session?') + prompt('Name?')</script>`,
  )
  const model = await opened('dialogs')
  expect(model).toMatchObject({ title: 'said truenull', http_auth: false, error: null, status: 200 })
  expect(model.alerts).toEqual(['The name is wrong', 'End the other session?', 'Name?'].map((text) => ({ text, by: 'role', control: null })))
  expect(await login.act([fill(model, 'user', 'someone')])).toMatchObject({ done: 1 })
  expect(await login.read()).toMatchObject({ alerts: [] })
  page('after', '<title>After</title>')
  expect(await opened('after')).toMatchObject({ title: 'After' })
})

test('requests that want a password by HTTP, printing and permissions open no window that a page waits for', async () => {
  const refuse: Made = (request, response) => response.writeHead(401, { 'www-authenticate': 'Basic realm=x' }).end()
  page('refused', refuse)
  page('refused.js', refuse)
  page(
    'asking',
    `<title>-</title><img src=/refused><iframe src=/refused></iframe><script src=/refused.js></script><button id=go>Go</button><script>
    const sync = () => { const request = new XMLHttpRequest(); request.open('GET', '/refused', false); request.send(); return request.status }
    go.onclick = async () => {
      alert('The password is wrong')
      const { status } = await fetch('/refused')
      print()
      const worker = new Worker(URL.createObjectURL(new Blob(["fetch('" + location.origin + "/refused').then(({ status }) => postMessage(status))"])))
      const inWorker = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)))
      const where = await new Promise((resolve) => navigator.geolocation ? navigator.geolocation.getCurrentPosition(() => resolve('somewhere'), () => resolve('refused')) : resolve('refused'))
      const camera = await (navigator.mediaDevices?.getUserMedia({ video: true }).catch(() => 'refused') ?? 'refused')
      document.title = [sync(), status, inWorker, where, camera, await Notification.requestPermission()].join()
    }</script>`,
  )
  const model = await opened('asking')
  expect(model).toMatchObject({ http_auth: false, status: 200 })
  expect(await login.act([click(model, 'go')])).toMatchObject({ done: 1 })
  // A JavaScript dialog counts as a change, even when nothing else on the page changes.
  expect(await login.settle()).toMatchObject({ by: 'changed' })
  await until('the answers', SEEN_MS, async () => (await login.read()).title !== '-')
  expect(await login.read()).toMatchObject({
    title: '401,401,401,refused,refused,denied',
    alerts: [{ text: 'The password is wrong', by: 'role', control: null }],
  })
})

test('a page that asks for a passkey is refused at once, and that is told', async () => {
  const html = `<title>-</title><script>
    const publicKey = { challenge: new Uint8Array(16), rpId: 'localhost', userVerification: 'required' }
    navigator.credentials.get({ publicKey, mediation: 'conditional' }).catch(() => { document.title = 'suggestions ended' })
    setTimeout(() => navigator.credentials.get({ publicKey }).catch(({ name }) => { document.title = name + ' ' + Object.keys(window).filter((key) => key.startsWith('cob')) }), 200)
  </script>`
  const serve = `require('http').createServer((q, s) => s.setHeader('content-type', 'text/html').end(${JSON.stringify(html)})).listen(8765, '127.0.0.1')`
  void runInside(cloud, id, `node -e "$(echo ${Buffer.from(serve).toString('base64')} | base64 -d)"`)
  await until('the server inside', SEEN_MS, async () => (await login.open('http://localhost:8765/')).error === null)
  await until('the refusal', SEEN_MS, async () => (await login.read()).title === 'NotAllowedError')
  expect(await login.read()).toMatchObject({ passkey_asked: true })
  page('no-passkey', '<p>none')
  expect(await opened('no-passkey')).toMatchObject({ passkey_asked: false })
})

test('a page of any size is read within limits, and one that hangs ends nothing but itself', async () => {
  const deep = '<div>'.repeat(3_000)
  page(
    'huge',
    `<h1>Huge</h1><label for=user>${'very long '.repeat(100_000)}</label><input id=user><div id=more></div>${deep}<p>x</p><script>
      for (let i = 0; i < 4000; i++) { const input = document.createElement('input'); input.title = 'n'.repeat(1000); more.append(input) }
      let host = document.body; for (let i = 0; i < 500; i++) { const next = document.createElement('div'); host.append(next); host = next.attachShadow({ mode: 'open' }) }
      for (let i = 0; i < 60; i++) document.body.append(document.createElement('iframe'))
    </script>`,
  )
  const model = await opened('huge')
  expect(model.controls.length).toBe(400)
  expect(controlIn(model, 'user').label.length).toBeLessThanOrEqual(300)
  expect(model.frames.length).toBeLessThanOrEqual(50)
  page('hangs', '<title>Hangs</title><input name=user><script>setTimeout(() => { for (;;); }, 1500)</script>')
  let last = await opened('hangs')
  const hangs = async () => {
    try {
      last = await login.read()
    } catch (error) {
      return /503.*does not answer/.test(String(error))
    }
  }
  await until('the end of its answers', SEEN_MS, hangs)
  expect(await login.act([fill(last, 'user')])).toMatchObject({ done: 0, problem: 'unusable' })
  page('fine', '<title>Fine</title>')
  expect(await opened('fine')).toMatchObject({ title: 'Fine' })
})

test('marks tell of cookies without their values; what was typed is masked in pictures until the end', async () => {
  page('marks', (request, response) =>
    response.writeHead(200, { 'set-cookie': ['sid=abcdefgh; HttpOnly', `lang=en; Max-Age=900`], 'content-type': 'text/html' }).end(),
  )
  await opened('marks')
  const marks = await login.marks([OWN])
  expect(marks.cookies.map(({ name }) => name).toSorted()).toEqual(['lang', 'sid'])
  expect(JSON.stringify(marks)).not.toContain('abcdefgh')
  expect(await login.marks(['other.test'])).toMatchObject({ cookies: [] })
  const picture = async () =>
    Buffer.from(await (await cloud.client.browsers.computer.captureScreenshot(id, { region: { x: 0, y: 95, width: 600, height: 100 } })).arrayBuffer())
  page(
    'masked',
    `<title>M</title><style>input { font: 40px monospace; caret-color: transparent; outline: none; border: 0; cursor: none } body { cursor: none }</style><input name=user autofocus>`,
  )
  const model = await opened('masked')
  const empty = await picture()
  await login.act([fill(model, 'user', 'iiiiiiii')])
  let first = empty
  const isStill = async () => {
    const [before, now] = [first, (first = await picture())]
    return now.equals(before) && !now.equals(empty)
  }
  await until('discs', SEEN_MS, isStill, { everyMs: 100 })
  // The picture shows equal discs: the letters W and i have other widths and forms.
  await login.act([fill(model, 'user', 'WWWWWWWW')])
  await login.settle(300)
  await until('the same discs', SEEN_MS, async () => (await picture()).equals(first))
  // The agent masks another tab too. When the login ends, this tab is the only one, and it shows its text.
  await login.open(site.url('masked'), true)
  await login.act([fill(await login.read(), 'user', 'WWWWWWWW')])
  await until('discs in another tab', SEEN_MS, async () => (await picture()).equals(first))
  await login.end()
  await until('the letters', SEEN_MS, async () => !(await picture()).equals(first))
  expect((await cloud.client.browsers.playwright.execute(id, { code: 'return context.pages().length' })).result).toBe(1)
  // A login that starts again can read a page. If the browser's tab was closed, it opens its own.
  expect(await login.read()).toMatchObject({ error: null })
})
