// The hosted login page: takes the code from the address, exchanges it, and leads a person through the login of a connection.
import './login.css'
import type { ReactNode } from 'react'
import type { Connection } from '../../../../src/control/logins/auth-connections/shown/contract.ts'
import { ApiError } from '../../api/error.ts'
import { show as showStep, Slow, Spinner, tellTrouble, type Step } from './card.tsx'
import { parsed, placeOf, readReturnUrls, withQuery } from './leave.ts'
import { Foreign, QuestionForm, questionName, questionOf, type Question } from './question.tsx'
import { exchange, follow, isOver, type Session } from './session.ts'
import { failureOf, plain, sentence } from './texts.ts'

/** An accepted answer changes the question within this time. If it does not, the same question is asked again. */
const TAKEN_MS = 15_000
const NEW_LINK = 'To try again, ask for a new link where you got this one.'
const LIVE_PATH = '/browser/live/'

// Remove the code from the address first, because addresses are copied, shared and kept in the history.
const address = new URL(location.href)
const code = address.searchParams.get('code')
const returnUrls = readReturnUrls(address.searchParams)
address.searchParams.delete('code')
history.replaceState(null, '', address.pathname + address.search)
const id = lastPart(address.pathname)

interface Stored {
  token?: string
  isAgreed?: boolean
}

/**
 * The storage key of the token. The token survives a reload in this tab: phones unload a page while its owner looks up a code in another app, and the link works only
 * once. It is removed when the login is over.
 */
const STORED = `cob-login:${id}`
const stored = {
  read(): Stored {
    try {
      return (JSON.parse(sessionStorage.getItem(STORED)!) as Stored | null) ?? {}
    } catch {
      return {}
    }
  },
  write(values?: Stored): void {
    try {
      if (values) sessionStorage.setItem(STORED, JSON.stringify(values))
      else sessionStorage.removeItem(STORED)
    } catch {
      // Storage is off: the login works until the page is reloaded.
    }
  },
}

let token: string | undefined
let isAgreed = false
let session: Session | undefined
/** The last state, and the cleaned names of domain and profile. */
let state: Connection
let domain = ''
let profile = ''
/** The shown question, with the typed values; it may be shown again. */
let question: (Question & { typed: Map<string, string> }) | undefined
/** The answered question, until the next one comes. */
let answered: { name: string } | undefined
let notice = ''
/** Earlier typed values by field name, without secrets and codes. */
const remembered = new Map<string, string>()

const show = (step: Step): void => showStep({ domain, ...step })

/** The path of this service's live view, or undefined for any other address. */
function viewPath(url: string | null | undefined): string | undefined {
  const found = url ? parsed(url, location.href) : undefined
  return found?.pathname.startsWith(LIVE_PATH) ? found.pathname + found.search : undefined
}

/** A step in which the person only waits. */
const busy = (name: string, heading: string, lead?: ReactNode): void => show({ name, heading, lead, body: <Slow /> })

interface End extends Step {
  /** The page goes to this address. The link stays for browsers that refuse. */
  leaveTo?: string | undefined
  linkTo?: string | undefined
}

/** Ends the page: it asks nothing any more, and forgets the token. */
function end({ leaveTo, linkTo, ...step }: End): void {
  session?.stop()
  stored.write()
  token = undefined
  question = undefined
  remembered.clear()
  tellTrouble('')
  const to = leaveTo ?? linkTo
  const link = to && (
    <a className="button primary" href={to} rel="noreferrer">
      Go to {placeOf(to)}
    </a>
  )
  show({ ...step, body: link ?? <p className="muted">You can close this page.</p> })
  if (leaveTo) location.replace(leaveTo)
}

interface Failure {
  error_code?: string | null | undefined
  message?: string | null | undefined
}

/** Ends a login that was open here, without success. */
function failed(name: string, [heading, advice]: [heading: string, advice?: string], { error_code: errorCode, message }: Failure = {}): void {
  const said = sentence(message)
  end({
    name,
    heading,
    lead: (
      <>
        {advice ? `${advice} ${NEW_LINK}` : NEW_LINK}
        {said && (
          <span className="said">
            <Foreign>{said}</Foreign>
          </span>
        )}
      </>
    ),
    leaveTo: returnUrls.error && withQuery(returnUrls.error, { code: errorCode, message: said || (advice ? `${heading}. ${advice}` : `${heading}.`) }),
  })
}

const over = (): void => failed('expired', ['This login has expired'])

/** Shows that a link does not work. The page does not go to the link's address, because its maker may not be the sender of the login. */
const unusable = (heading: string, lead: string): void =>
  end({ name: 'unusable', heading, lead, linkTo: returnUrls.error && withQuery(returnUrls.error, { message: heading }) })

function showConsent(): void {
  show({
    name: 'consent',
    heading: `Log in to ${domain}`,
    lead: (
      <>
        <Foreign>{location.host}</Foreign> wants to log in to{' '}
        <strong>
          <Foreign>{domain}</Foreign>
        </strong>{' '}
        for the profile{' '}
        <strong>
          <Foreign>{profile}</Foreign>
        </strong>
        .
      </>
    ),
    body: (
      <>
        <ul className="terms">
          <li>
            A browser of this service opens the login page of <Foreign>{domain}</Foreign>. What you type here is typed there, and nowhere else.
          </li>
          <li>The profile keeps the login: browsers with this profile can use your account until you log out there.</li>
          <li>
            {state.save_credentials === false
              ? 'What you type is not stored.'
              : 'User name and password are stored encrypted for the next login. Codes are not stored.'}
          </li>
        </ul>
        <p className="muted">Continue only if you trust the person who sent you this link.</p>
        <button className="button primary" type="button" onClick={agree}>
          Continue
        </button>
        <button className="button" type="button" onClick={() => failed('canceled', ['You have canceled the login', 'Nothing was sent.'])}>
          Cancel
        </button>
      </>
    ),
  })
}

function agree(): void {
  isAgreed = true
  stored.write({ ...(token !== undefined && { token }), isAgreed })
  apply(state)
}

const sent = (): void =>
  busy(
    'submitting',
    'Logging in…',
    <>
      <Foreign>{domain}</Foreign> checks your answer.
    </>,
  )

/** Sends an answer. If that fails, the values stay in the form. */
async function answer(body: object): Promise<void> {
  if (answered) return
  for (const { key, ref, kind } of question?.fields ?? []) if (!kind.isSecret && !kind.isCode) remembered.set(ref, question!.typed.get(key)?.trim() ?? '')
  const { interaction_id: interaction } = state
  const mine = { name: questionName(state) }
  answered = mine
  notice = ''
  sent()
  try {
    await session!.submit({ ...body, ...(interaction && { interaction_id: interaction }) })
    // Forget the typed secret, because it is no longer needed.
    question = undefined
    void session!.refresh()
    setTimeout(() => {
      if (answered !== mine) return
      answered = undefined
      void session!.refresh()
    }, TAKEN_MS)
    return
  } catch (error) {
    if (!token) return
    if (isOver(error)) return over()
    answered = undefined
    const refused = error instanceof ApiError ? error : undefined
    if (refused?.status === 409) {
      question = undefined
      notice = 'The site shows something else by now. Please answer again.'
      await session!.refresh()
    } else if (refused && refused.status < 500 && refused.status !== 429) notice = sentence(refused.message)
    else notice = 'Your answer could not be sent. Check your connection, then try again.'
  }
  if (token) apply(state)
}

function showQuestion(): void {
  if (question?.name !== questionName(state)) {
    if (question) notice = ''
    const found = questionOf(state, domain)
    question = {
      ...found,
      typed: new Map(found.fields.flatMap(({ key, ref, kind }) => (kind.isSecret || kind.isCode ? [] : [[key, remembered.get(ref) ?? '']]))),
    }
  }
  const { name, title, fields, ways, typed } = question
  const said = sentence(state.website_error)
  const isOutside = state.flow_step === 'AWAITING_EXTERNAL_ACTION'
  const message = sentence(state.external_action_message)
  const screen = isOutside ? viewPath(state.live_view_url) : undefined
  const isEmpty = fields.length + ways.length === 0
  show({
    name: `${isOutside ? 'external' : 'input'} ${name}`,
    heading: isOutside ? 'Your help is needed' : title,
    lead: isOutside && (
      <>
        {message && (
          <strong className="said">
            <Foreign>{message}</Foreign>
          </strong>
        )}
        {screen ? 'Do it on the screen below. This page goes on by itself.' : 'Do it on your other device. This page goes on by itself.'}
      </>
    ),
    problem: notice || (said && `${domain} says: ${said}`),
    bodyName: `question ${name}`,
    body: isEmpty ? (
      !screen && <Spinner />
    ) : (
      <QuestionForm
        question={question}
        typed={typed}
        onAnswer={(body) => void answer(body)}
        onIncomplete={(text) => {
          notice = text
          showQuestion()
        }}
      />
    ),
    screen,
  })
}

function apply(next: Connection): void {
  state = next
  domain = plain(next.domain)
  profile = plain(next.profile_name)
  const { flow_status: status, flow_step: step, error_code } = next
  if (status === 'SUCCESS')
    return end({
      name: 'success',
      heading: 'You are logged in',
      lead: (
        <>
          The profile <Foreign>{profile}</Foreign> is logged in to <Foreign>{domain}</Foreign>.
        </>
      ),
      leaveTo: returnUrls.success && withQuery(returnUrls.success, { profile_name: next.profile_name, domain: next.domain }),
    })
  if (status === 'FAILED') return failed('error', failureOf(error_code), { error_code, message: next.website_error || next.error_message })
  if (status === 'CANCELED') return failed('canceled', ['The login was canceled'], { error_code, message: next.error_message })
  if (status !== 'IN_PROGRESS') return failed('expired', ['This login has expired'], { error_code, message: next.error_message })
  if (!isAgreed) return showConsent()
  const asks = step === 'AWAITING_INPUT' || step === 'AWAITING_EXTERNAL_ACTION'
  // This state is older than the answer.
  if (asks && answered?.name === questionName(next)) return
  answered = undefined
  if (asks) return showQuestion()
  notice = ''
  if (step === 'SUBMITTING') return sent()
  busy(
    'discovering',
    'Opening the login page…',
    <>
      A browser of this service opens <Foreign>{domain}</Foreign>. This can take up to a minute.
    </>,
  )
}

function lastPart(path: string): string {
  try {
    return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
  } catch {
    return ''
  }
}

/** Waits until the page is visible: a page that a browser preloads or opens in the background must not use up the link. */
const seen = (): Promise<void> =>
  new Promise((resolve) => {
    const look = (): void => {
      if (document.visibilityState !== 'visible') return
      document.removeEventListener('visibilitychange', look)
      resolve()
    }
    document.addEventListener('visibilitychange', look)
    look()
  })

const onConnection = (isThere: boolean): void => tellTrouble(isThere ? '' : 'No connection to the service. Trying again…')

async function start(): Promise<void> {
  if (returnUrls.problem) return end({ name: 'unusable', heading: 'This link cannot be used', lead: `Its maker must change it: ${returnUrls.problem}` })
  const before = stored.read()
  token = before.token
  busy('start', 'Opening your login…')
  if (code) {
    await seen()
    try {
      token = await exchange(id, code, () => onConnection(false))
      stored.write({ token })
    } catch {
      // The person has opened the same link again in the tab that has used it.
      if (!before.token) return unusable('This link does not work any more', `Each link works once, and for a short time. ${NEW_LINK}`)
    }
  }
  if (!token) return unusable('Open the link again', `This page needs the whole link that you were given. ${NEW_LINK}`)
  isAgreed = token === before.token && before.isAgreed === true
  onConnection(true)
  session = follow({ id, token, onState: apply, onOver: over, onConnection })
}

void start()
