// The content of each test page, and when it logs the user in. own-pages.ts has the server.

export const PAGES = [
  'plain',
  'two-step',
  'push',
  'captcha',
  'passkey',
  'accounts',
  'phishing',
  'code-boxes',
  'mail-code',
  'sms-choice',
  'remember-device',
  'basic-auth',
  'script-basic',
  'bare-error',
  'alert-error',
  'cookie-banner',
  'dialog',
  'frame',
  'frame-elsewhere',
  'shadow',
] as const

/** The names of the pages, and of the frames that other hosts serve. */
export type PageName = (typeof PAGES)[number] | 'frame-form' | 'captcha-frame' | 'phishing-form'

export interface Visit {
  name: PageName
  method: string
  url: URL
  form: URLSearchParams
  user: Record<string, string>
  /** The steps that this browser has completed; `in` means logged in. */
  session: { steps: Set<string> }
  isApproved(): boolean
  isTrusted: boolean
  authorization: string | undefined
  elsewhere: { frame: string; captcha: string; phishing: string }
  /** Sends a new code, and returns it. */
  send(): string
  /** The newest code that was sent. */
  sent(): string | undefined
}

export interface Reply {
  html?: string
  location?: string
  status?: number
  headers?: Record<string, string>
  /** Store the session, and set its cookie. */
  keeps?: boolean
  trustsDevice?: boolean
}

const document = (body: string, title = 'Own pages') =>
  `<!doctype html><html lang="en"><head><title>${title}</title><style>body{font:16px sans-serif;margin:2em} input,button{font:inherit;margin:.3em}</style></head><body>${body}</body></html>`

const loginForm = (action: string, error = '') => `<form method="post" action="${action}">${error}
<label>User name <input name="username" autocomplete="username"></label>
<label>Password <input name="password" type="password" autocomplete="current-password"></label>
<button>Log in</button></form>`

const codeForm = (hint: string, error = '') =>
  `<h1>Check that it is you</h1><p>${hint}</p>${error}<form method="post" action="/code"><label>Code <input name="code" inputmode="numeric" maxlength="6" autocomplete="one-time-code"></label><button>Continue</button></form>`

const wrong = '<p role="alert">The user name or the password is wrong.</p>'
const wrongCode = '<p role="alert">That code is wrong.</p>'

export function pageOf(visit: Visit): Reply {
  const { name, url, method, session, form, user } = visit
  if (name === 'frame-form') return { html: document(loginForm(`http://frame-elsewhere.own-pages.test/login" target="_top`)) }
  if (name === 'captcha-frame') return { html: document('<label><input type="checkbox"> I am not a robot</label>', 'reCAPTCHA') }
  if (name === 'phishing-form') return { html: document(`<h1>Log in</h1>${loginForm('/login')}`) }
  if (url.pathname === '/logout') {
    session.steps.clear()
    return { location: '/', keeps: true }
  }
  if (session.steps.has('in')) return { html: document('<h1>Welcome back, ann</h1><a href="/logout">Log out</a>') }
  const enter = (more: Partial<Reply> = {}): Reply => {
    session.steps.add('in')
    return { location: '/', keeps: true, ...more }
  }
  const isRight = form.get('password') === user.password && (form.get('username') === user.username || form.get('username') === user.email)
  const isFirst = method === 'POST' && url.pathname === '/login'
  /** Calls `next` after the right password; otherwise shows the form with the error. */
  const past = (next: () => Reply, error = wrong): Reply | undefined =>
    isFirst ? (isRight ? next() : { html: document(loginForm('/login', error)) }) : undefined
  const step = (mark: string, location: string): Reply => {
    session.steps.add(mark)
    return { location, keeps: true }
  }
  const form1 = (): Reply => ({ html: document(`<h1>Log in</h1>${loginForm('/login')}`) })
  const isKnown = session.steps.has('password')
  const code = (given: string | null, expected: string | undefined) => method === 'POST' && expected !== undefined && given === expected

  switch (name) {
    case 'plain':
      return past(enter) ?? form1()
    case 'two-step': {
      if (isFirst && form.get('username') !== null) return step('name', '/password')
      if (url.pathname === '/password' && session.steps.has('name')) {
        const isWrong = method === 'POST'
        if (isWrong && form.get('password') === user.password) return enter()
        return {
          html: document(
            `<h1>Hello</h1><p>ann@example.test</p>${isWrong ? wrong : ''}<form method="post" action="/password"><label>Password <input name="password" type="password"></label><button>Next</button></form>`,
          ),
        }
      }
      return {
        html: document(
          '<h1>Log in</h1><form method="post" action="/login"><label>E-mail <input name="username" type="email"></label><button>Next</button></form>',
        ),
      }
    }
    case 'push': {
      if (url.pathname === '/wait' && isKnown) {
        if (visit.isApproved()) return enter()
        return {
          html: document(
            '<h1>Approve the log-in on your phone</h1><p>We have sent a notification to your device. Waiting for your approval.</p><script>setTimeout(() => location.reload(), 1000)</script>',
          ),
        }
      }
      return past(() => step('password', '/wait')) ?? form1()
    }
    case 'captcha': {
      const frame = `<iframe title="reCAPTCHA" src="http://${visit.elsewhere.captcha}/recaptcha/api2/anchor" width="304" height="78"></iframe><input type="hidden" name="g-recaptcha-response">`
      const page = (error = '') => ({ html: document(loginForm('/login', error).replace('<button>', `${frame}<button>`)) })
      if (isFirst) return isRight && form.get('g-recaptcha-response') ? enter() : page('<p role="alert">Please confirm that you are not a robot.</p>')
      return page()
    }
    case 'passkey':
      return {
        html: document(
          `<h1>Log in</h1><p>This site uses passkeys only.</p><button type="button" id="go">Use your passkey</button><p id="said" role="alert"></p><script>
document.getElementById('go').onclick = async () => {
  try { await navigator.credentials.get({ publicKey: { challenge: new Uint8Array(32), timeout: 60000 } }) }
  catch (error) { document.getElementById('said').textContent = 'Your passkey could not be used.' }
}</script>`,
        ),
      }
    case 'accounts': {
      if (isFirst && form.get('account') !== null)
        return form.get('account') === user.email ? step('name', '/password') : { html: document('<p role="alert">This account is locked.</p>') }
      if (url.pathname === '/password' && session.steps.has('name')) {
        if (method === 'POST' && form.get('password') === user.password) return enter()
        return {
          html: document(
            `${method === 'POST' ? wrong : ''}<form method="post"><label>Password <input name="password" type="password"></label><button>Log in</button></form>`,
          ),
        }
      }
      return {
        html: document(
          `<h1>Choose an account</h1><form method="post" action="/login"><ul>${[user.email, 'bob@example.test'].map((email) => `<li><button name="account" value="${email}">${email}</button></li>`).join('')}</ul></form>`,
        ),
      }
    }
    case 'phishing':
      return url.pathname === '/login'
        ? { location: `http://${visit.elsewhere.phishing}/login` }
        : { html: document('<h1>A shop</h1><a href="/login">Log in</a>') }
    case 'code-boxes': {
      if (url.pathname === '/code' && isKnown) {
        if (code(['1', '2', '3', '4', '5', '6'].map((at) => form.get(`digit${at}`) ?? '').join(''), user.code)) return enter()
        const boxes = [1, 2, 3, 4, 5, 6].map((at) => `<input name="digit${at}" maxlength="1" size="1" inputmode="numeric" aria-label="Digit ${at}">`).join('')
        return {
          html: document(`<h1>Enter your code</h1><p>From your authenticator app</p>${method === 'POST' ? wrongCode : ''}<form method="post" action="/code" id="f">${boxes}<button>Verify</button></form>
<script>const boxes = [...document.querySelectorAll('#f input')]; boxes.forEach((box, i) => box.addEventListener('input', () => { if (box.value) boxes[i + 1]?.focus() }))</script>`),
        }
      }
      return past(() => step('password', '/code')) ?? form1()
    }
    case 'mail-code': {
      if (url.pathname === '/code' && isKnown) {
        if (code(form.get('code'), visit.sent())) return enter()
        if (method === 'GET') visit.send()
        return { html: document(codeForm('We have sent a code by e-mail to a••@e••••••.test.', method === 'POST' ? wrongCode : '')) }
      }
      return past(() => step('password', '/code')) ?? form1()
    }
    case 'sms-choice': {
      if (url.pathname === '/code' && isKnown) {
        if (method === 'POST' && form.get('method') !== null) visit.send()
        else if (code(form.get('code'), visit.sent())) return enter()
        else if (method === 'GET') return { location: '/choose' }
        return { html: document(codeForm('We have sent a text message to the number ending in ••92.', form.get('code') === null ? '' : wrongCode)) }
      }
      if (url.pathname === '/choose' && isKnown) {
        return {
          html: document(
            '<h1>How do you want to get your code?</h1><form method="post" action="/code"><button name="method" value="sms">Text message to •••• ••92</button><button name="method" value="email">E-mail to a••@e••••••.test</button></form>',
          ),
        }
      }
      return past(() => step('password', '/choose')) ?? form1()
    }
    case 'remember-device': {
      if (url.pathname === '/device' && isKnown && method === 'POST') return enter({ trustsDevice: form.get('trust') === 'yes' })
      if (url.pathname === '/device' && isKnown) {
        return {
          html: document(
            '<h1>Trust this device?</h1><form method="post" action="/device"><button name="trust" value="yes">Yes, trust this device</button><button name="trust" value="no">Not now</button></form>',
          ),
        }
      }
      if (url.pathname === '/code' && isKnown) {
        if (code(form.get('code'), user.code)) return { location: '/device' }
        return { html: document(codeForm('From your authenticator app.', method === 'POST' ? wrongCode : '')) }
      }
      return past(() => (visit.isTrusted ? enter() : step('password', '/code'))) ?? form1()
    }
    case 'basic-auth': {
      const expected = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString('base64')}`
      if (visit.authorization === expected) return { html: document('<h1>Welcome back, ann</h1>') }
      return { status: 401, headers: { 'www-authenticate': 'Basic realm="Own pages"' }, html: document('<h1>401</h1>') }
    }
    case 'script-basic': {
      // The page's script uses a synchronous request, as old pages do.
      const expected = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString('base64')}`
      if (url.pathname === '/check')
        return visit.authorization === expected ? enter() : { status: 401, headers: { 'www-authenticate': 'Basic realm="Own pages"' }, html: 'refused' }
      return {
        html: document(`<h1>Log in</h1>${loginForm('/login')}<p id="said" role="alert"></p><script>document.forms[0].onsubmit = (event) => {
  event.preventDefault()
  const request = new XMLHttpRequest()
  request.open('GET', '/check', false)
  request.setRequestHeader('authorization', 'Basic ' + btoa(event.target.username.value + ':' + event.target.password.value))
  request.send()
  if (request.status === 401) document.getElementById('said').textContent = 'Login failed'
  else location.href = '/'
}</script>`),
      }
    }
    case 'alert-error':
      return past(enter, "<script>alert('We do not know Ann by this word.')</script>") ?? form1()
    case 'bare-error':
      return past(enter, '<div><b>Sorry, we do not know these details.</b></div>') ?? form1()
    case 'cookie-banner': {
      const banner = `<div id="banner" style="position:fixed;inset:0;background:#fff;padding:3em"><h2>We value your privacy</h2><p>We and our partners use cookies.</p><button type="button">Accept all</button><button type="button">Reject all</button></div><script>for (const b of document.querySelectorAll('#banner button')) b.onclick = () => document.getElementById('banner').remove()</script>`
      return past(enter) ?? { html: document(`<h1>Log in</h1>${loginForm('/login')}${banner}`) }
    }
    case 'dialog':
      return (
        past(enter) ?? {
          html: document(
            `<header><a href="#" id="open" role="button">Sign in</a></header><h1>Shop</h1><input type="search" placeholder="Search"><dialog id="d"></dialog><script>document.getElementById('open').onclick = (event) => { event.preventDefault(); const d = document.getElementById('d'); d.innerHTML = ${JSON.stringify(loginForm('/login'))}; d.showModal() }</script>`,
          ),
        }
      )
    case 'frame':
      if (url.pathname === '/form') return { html: document(loginForm('/login" target="_top')) }
      return past(enter) ?? { html: document('<h1>Log in</h1><iframe src="/form" width="600" height="200"></iframe>') }
    case 'frame-elsewhere':
      return past(enter) ?? { html: document(`<h1>Log in</h1><iframe src="http://${visit.elsewhere.frame}/form" width="600" height="200"></iframe>`) }
    case 'shadow':
      return (
        past(enter) ?? {
          html: document(
            `<h1>Log in</h1><log-in></log-in><script>customElements.define('log-in', class extends HTMLElement { connectedCallback() { this.attachShadow({ mode: 'open' }).innerHTML = ${JSON.stringify(loginForm('/login'))} } })</script>`,
          ),
        }
      )
  }
}
