// The page on which a person gives a program access: which program asks, who is signed in, and the person's answer.
import './sheet.css'
import { createRoot } from 'react-dom/client'
import { ApiError, call } from '../api/client.ts'
import type { AnswerOf, InputOf } from '../api/contracts.ts'
import { focus } from './focus.ts'

/** A person who signs in here has not chosen a project in the dashboard. */
const EVERYWHERE = { headers: { 'x-kernel-project-id': '' } }

const asked = new URLSearchParams(location.search)
const names = ['client_id', 'redirect_uri', 'response_type', 'state', 'scope', 'code_challenge', 'code_challenge_method'] as const
const request = {
  ...Object.fromEntries(names.flatMap((name) => (asked.has(name) ? [[name, asked.get(name)]] : []))),
  ...(asked.has('resource') && { resource: asked.getAll('resource') }),
} as InputOf<'answerAuthorizationRequest'>['body']['request']

const root = createRoot(document.querySelector('main')!)
let steps = 0

/** Shows a step: a heading, a message and the controls. The heading takes the focus, unless a field does. */
function show(title: string, message: string, body?: React.ReactNode): void {
  steps++
  root.render(
    <>
      <h1 key={steps} tabIndex={-1} ref={body && message ? undefined : focus}>
        {title}
      </h1>
      <p id="message">{message}</p>
      <div key={`body ${steps}`}>{body}</div>
    </>,
  )
}

/** Shows an error where the person looks. */
const tell = (error: unknown): void =>
  show(
    error instanceof ApiError && error.status >= 400 && error.status < 500 ? 'This request cannot be answered' : 'Something went wrong',
    (error as Error).message,
  )
const work = (act: Promise<void>): void => void act.catch(tell)
const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401

async function start(): Promise<void> {
  // A code must not go to an address that the client has not registered, so an error does not redirect there either.
  const program = await call('getAuthorizationRequest', { query: request }, EVERYWHERE)
  try {
    const me = await call('getMe', {}, EVERYWHERE)
    show('Allow access?', '', <Consent program={program} me={me} />)
  } catch (error) {
    if (!isSignedOut(error)) throw error
    await askToSignIn(`“${program.client.name}” asks for access to Cob.`)
  }
}

async function askToSignIn(message: string): Promise<void> {
  const { providers } = await call('getSignInOptions', {}, EVERYWHERE)
  show('Sign in to allow access', message, <SignIn providers={providers} />)
}

function SignIn({ providers }: Pick<AnswerOf<'getSignInOptions'>, 'providers'>) {
  const signIn = async (form: HTMLFormElement): Promise<void> => {
    try {
      await call('signInWithKey', { body: { api_key: (new FormData(form).get('key') as string).trim() } }, EVERYWHERE)
    } catch (error) {
      return askToSignIn((error as Error).message)
    }
    return start()
  }
  const back = new URLSearchParams({ return_to: location.pathname + location.search }).toString()
  return (
    <form onSubmit={(event) => (event.preventDefault(), work(signIn(event.currentTarget)))}>
      {providers.map(({ id, name }) => (
        <a key={id} className="button" href={`/sign-in/oidc/${encodeURIComponent(id)}?${back}`}>
          Sign in with {name}
        </a>
      ))}
      <div className="field">
        <label htmlFor="key">API key</label>
        <input id="key" name="key" type="password" autoComplete="off" spellCheck="false" required maxLength={512} ref={focus} />
      </div>
      <button className="button primary">Sign in</button>
    </form>
  )
}

function Consent({ program, me }: { program: AnswerOf<'getAuthorizationRequest'>; me: AnswerOf<'getMe'> }) {
  const { principal, role, projects } = me
  const answer = async (form: HTMLFormElement, allow: boolean): Promise<void> => {
    const given = new FormData(form)
    const project = given.get('project') as string
    for (const button of form.querySelectorAll('button')) button.disabled = true
    const body = { request, allow, looks_only: program.looks_only || given.has('looks_only'), ...(project && { project_id: project }) }
    try {
      const { redirect_to: to } = await call('answerAuthorizationRequest', { body }, EVERYWHERE)
      show(allow ? 'Access is allowed' : 'Access is not allowed', 'You can close this page when the program goes on.')
      location.assign(to)
    } catch (error) {
      if (!isSignedOut(error)) throw error
      await askToSignIn('Your sign-in has ended. Sign in again.')
    }
  }
  const signOut = async (): Promise<void> => {
    await call('signOut', {}, EVERYWHERE)
    await start()
  }
  const submit = (event: React.SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault()
    work(answer(event.currentTarget, (event.nativeEvent.submitter as HTMLButtonElement | null)?.value === 'allow'))
  }
  return (
    <form id="consent" onSubmit={submit}>
      <dl>
        <dt>Program</dt>
        <dd id="client">{program.client.name}</dd>
        <dt>Its access goes to</dt>
        <dd>{program.goes_to}</dd>
        <dt>It acts as</dt>
        <dd id="who">{principal.type === 'user' ? (principal.email ?? principal.name ?? principal.id) : `the API key “${principal.name}”`}</dd>
      </dl>
      <p>The program chose its own name. Allow it only if you have just started this yourself.</p>
      <div className="field">
        <label htmlFor="project">It may use</label>
        <select id="project" name="project">
          {(role !== null || projects.length > 1) && <option value="">{role === null ? 'all of your projects' : 'all projects'}</option>}
          {projects.map(({ id, name }) => (
            <option key={id} value={id}>
              only the project {name}
            </option>
          ))}
        </select>
      </div>
      <label>
        <input id="looks-only" name="looks_only" type="checkbox" defaultChecked={program.looks_only} disabled={program.looks_only} /> It may only look, and
        change nothing
      </label>
      <div className="buttons">
        <button className="button primary" value="allow">
          Allow
        </button>
        <button className="button" value="deny">
          Do not allow
        </button>
        <button className="button quiet" type="button" id="other" onClick={() => work(signOut())}>
          Sign in as somebody else
        </button>
      </div>
    </form>
  )
}

show('One moment…', '')
work(start())
