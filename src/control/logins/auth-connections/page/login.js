// The hosted login page: takes the code out of the address, exchanges it, and leads a person through a login of a connection.
import { foreign, make } from './dom.js'
import { parsed, placeOf, readReturnUrls, withQuery } from './leave.js'
import { questionElement, questionName, questionOf } from './question.js'
import { exchange, follow, isOver, Refused } from './session.js'
import { failureOf, plain, sentence } from './texts.js'

/** An answer that was taken has changed the question after this time; if not, it is asked again. */
const TAKEN_MS = 15_000
const NEW_LINK = 'To try again, ask for a new link where you got this one.'
/** After this time a person may wonder whether anything still happens. */
const SLOW_MS = 15_000
const LIVE_PATH = '/browser/live/'

const find = (id) => document.getElementById(id)
const card = find('card')

// First of all: an address is copied, shared and kept in the history.
const address = new URL(location.href)
const code = address.searchParams.get('code')
const returnUrls = readReturnUrls(address.searchParams)
address.searchParams.delete('code')
history.replaceState(null, '', address.pathname + address.search)
const id = lastPart(address.pathname)

/**
 * The token outlives a reload in this tab, and no longer: phones throw pages away while their owner looks up a code in another app, and the link works
 * only once. It is removed when the login is over.
 */
const STORED = `cob-login:${id}`
const stored = {
  read() {
    try {
      return JSON.parse(sessionStorage.getItem(STORED)) ?? {}
    } catch {
      return {}
    }
  },
  write(values) {
    try {
      if (values) sessionStorage.setItem(STORED, JSON.stringify(values))
      else sessionStorage.removeItem(STORED)
    } catch {
      // Storage is switched off: the login works until the page is reloaded.
    }
  },
}

let token
let isAgreed = false
let session
/** The last state, and the names of domain and profile, harmless. */
let state
let domain = ''
let profile = ''
/** The name of the step that is shown, and the form that may be shown again with what was typed. */
let shown
let question
/** The question that was answered, until the next one comes. */
let answered
let notice = ''
let slow
const remembered = new Map()

/** Shows a step: a heading that takes the focus, a sentence, a problem, and what to do. The same step again changes only the problem. */
function show({ name, heading, lead = '', problem = '', body = [] }) {
  if (shown !== name) {
    shown = name
    clearTimeout(slow)
    card.dataset.step = name.split(' ', 1)[0]
    // A new element: screen readers do not read one again that has the focus already.
    const title = make('h1', { id: 'heading', tabindex: '-1' }, heading)
    find('heading').replaceWith(title)
    find('lead').replaceChildren(...[lead].flat().filter(Boolean))
    find('body').replaceChildren(...[body].flat().filter(Boolean))
    document.title = heading
    title.focus({ preventScroll: true })
    scrollTo(0, 0)
  }
  if (find('problem').textContent !== problem) find('problem').textContent = problem
  find('site').hidden = !domain
  find('domain').textContent = domain
}

/** The live view beside a step. It stays as it is while the step changes around it. */
function showScreen(url) {
  const screen = find('screen')
  const path = url && viewPath(url)
  if (screen.dataset.path === (path ?? '')) return
  screen.dataset.path = path ?? ''
  screen.hidden = !path
  screen.replaceChildren(
    ...(path
      ? [
          make('iframe', {
            src: path,
            title: `Screen of the browser that logs in to ${domain}`,
            referrerpolicy: 'no-referrer',
            allow: 'clipboard-write; fullscreen',
          }),
        ]
      : []),
  )
}

/** The path of a live view of this service; undefined for everything else. */
function viewPath(url) {
  const found = parsed(url, location.href)
  return found?.pathname.startsWith(LIVE_PATH) ? found.pathname + found.search : undefined
}

const spinner = () => make('div', { class: 'spinner', 'aria-hidden': 'true' })

/** A step in which the person only waits. */
const busy = (name, heading, lead) => {
  const isNew = shown !== name
  showScreen()
  show({ name, heading, lead, body: spinner() })
  if (isNew)
    slow = setTimeout(() => {
      find('body').append(make('p', { class: 'quiet', role: 'status' }, 'This takes longer than usual. You can leave this page open.'))
    }, SLOW_MS)
}

const link = (href, text) => make('a', { class: 'main', href, rel: 'noreferrer' }, text)

/** The end of the page: nothing is asked any more, and the token is forgotten. `leaveTo` is opened; the link stays for browsers that refuse to. */
function end({ name, heading, lead, leaveTo, linkTo }) {
  session?.stop()
  stored.write()
  token = undefined
  question = undefined
  remembered.clear()
  find('connection').textContent = ''
  showScreen()
  const to = leaveTo ?? linkTo
  show({ name, heading, lead, body: to ? link(to, `Go to ${placeOf(to)}`) : make('p', { class: 'quiet' }, 'You can close this page.') })
  if (leaveTo) location.replace(leaveTo)
}

/** An end without success, of a login that was open here. */
function failed(name, [heading, advice], { code: errorCode, message } = {}) {
  const said = sentence(message)
  const lead = advice ? `${advice} ${NEW_LINK}` : NEW_LINK
  end({
    name,
    heading,
    lead: [lead, said && make('span', { class: 'said' }, foreign(said))],
    leaveTo: returnUrls.error && withQuery(returnUrls.error, { code: errorCode, message: said || (advice ? `${heading}. ${advice}` : `${heading}.`) }),
  })
}

const over = () => failed('expired', ['This login has expired'])

/** A link that opens nothing. It sends nobody anywhere: its maker may be somebody else than the sender of the login. */
function unusable(heading, lead) {
  end({ name: 'unusable', heading, lead, linkTo: returnUrls.error && withQuery(returnUrls.error, { message: heading }) })
}

function showConsent() {
  const keeps = state.save_credentials !== false
  const item = (...texts) => make('li', {}, ...texts)
  show({
    name: 'consent',
    heading: `Log in to ${domain}`,
    lead: [foreign(location.host), ' wants to log in to ', make('strong', {}, foreign(domain)), ' for the profile ', make('strong', {}, foreign(profile)), '.'],
    body: [
      make(
        'ul',
        { class: 'terms' },
        item('A browser of this service opens the login page of ', foreign(domain), '. What you type here is typed there, and nowhere else.'),
        item('The profile keeps the login: browsers with this profile can use your account until you log out there.'),
        item(keeps ? 'User name and password are stored encrypted for the next login. Codes are not stored.' : 'What you type is not stored.'),
      ),
      make('p', { class: 'quiet' }, 'Continue only if you trust the person who sent you this link.'),
      make(
        'div',
        { class: 'buttons' },
        make('button', { class: 'main', type: 'button', onclick: agree }, 'Continue'),
        make('button', { class: 'second', type: 'button', onclick: refuse }, 'Cancel'),
      ),
    ],
  })
}

function agree() {
  isAgreed = true
  stored.write({ token, isAgreed })
  apply(state)
}

const refuse = () => failed('canceled', ['You have canceled the login', 'Nothing was sent.'])

/** Sends an answer. What cannot be sent stays in the form. */
async function answer(body) {
  if (answered) return
  const { interaction_id: interaction } = state
  const mine = { name: questionName(state) }
  answered = mine
  notice = ''
  busy('submitting', 'Logging in…', [foreign(domain), ' checks your answer.'])
  try {
    await session.submit({ ...body, ...(interaction && { interaction_id: interaction }) })
    // It is a secret that is not needed any more.
    question = undefined
    setTimeout(() => {
      if (answered !== mine) return
      answered = undefined
      void session.refresh()
    }, TAKEN_MS)
    return
  } catch (error) {
    if (!token) return
    if (isOver(error)) return over()
    answered = undefined
    if (error instanceof Refused && error.status === 409) {
      question = undefined
      notice = 'The site shows something else by now. Please answer again.'
      await session.refresh()
    } else if (error instanceof Refused && error.status < 500 && error.status !== 429) notice = sentence(error.message) || 'This was not accepted.'
    else notice = 'Your answer could not be sent. Check your connection, then try again.'
  }
  if (token) apply(state)
}

function showQuestion() {
  const name = questionName(state)
  const asked = questionOf(state, domain)
  if (question?.name !== name) {
    if (question) notice = ''
    question = {
      name,
      element: questionElement(asked, {
        remembered,
        onAnswer: (body) => void answer(body),
        onIncomplete: (text) => {
          notice = text
          find('problem').textContent = text
        },
      }),
    }
  }
  const said = sentence(state.website_error)
  const isOutside = state.flow_step === 'AWAITING_EXTERNAL_ACTION'
  const message = sentence(state.external_action_message)
  showScreen(isOutside ? state.live_view_url : undefined)
  const hasScreen = isOutside && find('screen').dataset.path !== ''
  const isEmpty = asked.fields.length + asked.choices.length === 0
  const usual = hasScreen ? 'Do it on the screen below. This page goes on by itself.' : 'Do it on your other device. This page goes on by itself.'
  show({
    name: `${isOutside ? 'external' : 'input'} ${name}`,
    heading: isOutside ? 'Your help is needed' : asked.title,
    lead: isOutside ? [message && make('strong', { class: 'said' }, foreign(message)), usual] : '',
    problem: notice || (said && `${domain} says: ${said}`),
    body: [!isEmpty && question.element, isEmpty && !hasScreen && spinner()],
  })
}

/** Shows a state of the login. */
function apply(next) {
  state = next
  domain = plain(next.domain)
  profile = plain(next.profile_name)
  const { flow_status: status, flow_step: step } = next
  if (status === 'SUCCESS')
    return end({
      name: 'success',
      heading: 'You are logged in',
      lead: ['The profile ', foreign(profile), ' is logged in to ', foreign(domain), '.'],
      leaveTo: returnUrls.success && withQuery(returnUrls.success, { profile_name: next.profile_name, domain: next.domain }),
    })
  if (status === 'FAILED') return failed('error', failureOf(next.error_code), { code: next.error_code, message: next.website_error || next.error_message })
  if (status === 'CANCELED') return failed('canceled', ['The login was canceled'], { code: next.error_code, message: next.error_message })
  if (status !== 'IN_PROGRESS') return failed('expired', ['This login has expired'], { code: next.error_code, message: next.error_message })
  if (!isAgreed) return showConsent()
  const asks = step === 'AWAITING_INPUT' || step === 'AWAITING_EXTERNAL_ACTION'
  // A state from before the answer.
  if (asks && answered?.name === questionName(next)) return
  answered = undefined
  if (asks) return showQuestion()
  notice = ''
  if (step === 'SUBMITTING') return busy('submitting', 'Logging in…', [foreign(domain), ' checks your answer.'])
  return busy('discovering', 'Opening the login page…', ['A browser of this service opens ', foreign(domain), '. This can take up to a minute.'])
}

function lastPart(path) {
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
  } catch {
    return ''
  }
}

/** A page that a browser loads ahead, or that is opened in the background, must not use up the link. */
const seen = () =>
  new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState !== 'visible') return
      document.removeEventListener('visibilitychange', look)
      resolve()
    }
    document.addEventListener('visibilitychange', look)
    look()
  })

const trouble = () => {
  find('connection').textContent = 'No connection to the service. Trying again…'
}

async function start() {
  if (returnUrls.problem) return end({ name: 'unusable', heading: 'This link cannot be used', lead: `Its maker must change it: ${returnUrls.problem}` })
  const before = stored.read()
  token = before.token
  if (code) {
    busy('start', 'Opening your login…', '')
    await seen()
    try {
      token = await exchange(id, code, trouble)
      stored.write({ token })
    } catch {
      // The same link, opened again in the tab that has used it.
      if (!before.token) return unusable('This link does not work any more', `Each link works once, and for a short time. ${NEW_LINK}`)
    }
  }
  if (!token) return unusable('Open the link again', `This page needs the whole link that you were given. ${NEW_LINK}`)
  isAgreed = token === before.token && before.isAgreed === true
  find('connection').textContent = ''
  busy('start', 'Opening your login…', '')
  session = follow({
    id,
    token,
    onState: apply,
    onOver: over,
    onConnection: (isThere) => (isThere ? (find('connection').textContent = '') : trouble()),
  })
}

void start()
