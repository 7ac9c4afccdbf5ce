// A fake service for tests of login clients: the real hosted page, and the public calls of one connection. The test sets the state of its flow.
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { Connection, FlowEvent, Submission } from '../../src/control/logins/auth-connections/contract.ts'
import { hostedPath, serveHostedPage } from '../../src/control/logins/auth-connections/hosted-page.ts'
import { serveDashboard } from '../../src/control/service/dashboard/dashboard.ts'
import { keepBuilt, readBuilt } from '../../src/control/service/dashboard/files.ts'
import { pagesOf } from '../../src/control/service/dashboard/pages.ts'
import type { MountContext } from '../../src/http/mount.ts'

export const CONNECTION_ID = 'connection-1'
const CODE = 'code-of-one-use'

export type Played = Partial<Omit<FlowEvent & { event: 'managed_auth_state' }, 'event' | 'timestamp'>>

export interface PlayedLogin extends AsyncDisposable {
  url: string
  /** The hosted page's address, with these parameters added. */
  hosted(query?: Record<string, string>): string
  code: string
  /** Sets the state of the flow. */
  play(state: Played): void
  /** The submitted answers, oldest first. */
  answers: Submission[]
  /** Every request: method, path, and the headers that might leak a secret. */
  requests: { method: string; url: string; headers: Record<string, unknown> }[]
  /** Simulated faults: `everything` refuses all calls, as when the service is down; `token` and `submit` are the statuses of those calls. */
  faults: { everything: boolean; token: number | undefined; submit: number | undefined }
}

const ASLEEP = { flow_status: 'IN_PROGRESS', flow_step: 'DISCOVERING' } as const

const base = {
  id: CONNECTION_ID,
  status: 'NEEDS_AUTH',
  allowed_domains: [],
  auto_reauth: true,
  health_checks: true,
  health_check_interval: 3600,
  record_session: false,
  save_credentials: true,
  browser: { stealth: true, telemetry: null },
  browser_telemetry: null,
  can_reauth: false,
  can_reauth_reason: 'no_prior_successful_login',
  flow_type: 'LOGIN',
  flow_expires_at: new Date(Date.now() + 600_000).toISOString(),
  browser_session_id: null,
}
const nothing = Object.fromEntries(
  [
    'fields',
    'choices',
    'discovered_fields',
    'mfa_options',
    'pending_sso_buttons',
    'sign_in_options',
    'interaction_id',
    'external_action_message',
    'website_error',
  ].map((name) => [name, null]),
)
const alsoNothing = { error_code: null, error_message: null, hosted_url: null, live_view_url: null, sso_provider: null }

/** The CORS headers of a public call, which `managed-auth` promises to pages of any origin. */
const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-headers': 'Authorization, Content-Type, Accept',
  'access-control-allow-methods': 'GET, POST, OPTIONS',
}

/** Starts the service on a free port of this machine. */
export async function playLogin({
  domain = 'shop.example',
  profileName = 'work',
}: {
  domain?: string
  profileName?: string
} = {}): Promise<PlayedLogin> {
  const app = fastify({ forceCloseConnections: true })
  const token = `token-${Math.random().toString(36).slice(2)}`
  let state: Played = ASLEEP
  let codeIsGood = true
  const login: PlayedLogin = {
    url: '',
    code: CODE,
    hosted: (query = {}) => {
      const url = new URL(hostedPath(CONNECTION_ID, CODE), login.url)
      for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
      return url.href
    },
    play(next) {
      state = { ...ASLEEP, ...next }
      // Check that the contract allows this state.
      FlowEvent.parse({ event: 'managed_auth_state', timestamp: new Date().toISOString(), ...state })
    },
    answers: [],
    requests: [],
    faults: { everything: false, token: undefined, submit: undefined },
    [Symbol.asyncDispose]: () => app.close(),
  }
  const refuse = (reply: FastifyReply, status: number, message = 'refused by the test') => reply.code(status).send({ code: 'refused', message })

  app.addHook('onRequest', async ({ method, url, headers }, reply) => {
    login.requests.push({ method, url, headers })
    if (!url.startsWith('/auth/connections/')) return
    if (login.faults.everything) {
      reply.hijack()
      return void reply.raw.socket?.destroy()
    }
    void reply.headers(CORS)
    if (method !== 'OPTIONS' && !url.endsWith('/exchange')) {
      if (login.faults.token !== undefined) return refuse(reply, login.faults.token)
      if (headers.authorization !== `Bearer ${token}`) return refuse(reply, 401)
    }
  })
  app.options('/auth/connections/*', async (_request, reply) => reply.code(204).send())
  app.post('/auth/connections/:id/exchange', async (request, reply) => {
    const isRight = (request.body as { code?: unknown }).code === CODE && (request.params as { id: string }).id === CONNECTION_ID
    if (!isRight || !codeIsGood) return refuse(reply, 401)
    codeIsGood = false
    return { jwt: token }
  })
  app.get('/auth/connections/:id', async () =>
    Connection.parse({ ...base, ...nothing, ...alsoNothing, domain, profile_name: profileName, ...ASLEEP, ...state }),
  )
  app.post('/auth/connections/:id/submit', async (request: FastifyRequest, reply) => {
    const { success, data } = Submission.safeParse(request.body)
    if (!success) return refuse(reply, 400, 'not a submission')
    if (login.faults.submit !== undefined) return refuse(reply, login.faults.submit, 'the answer is refused')
    if (data.interaction_id !== undefined && data.interaction_id !== state.interaction_id) return refuse(reply, 409, 'another question by now')
    login.answers.push(data)
    login.play({ flow_step: 'SUBMITTING' })
    return reply.code(202).send({ accepted: true })
  })
  // The page embeds this live view when the person must act elsewhere.
  app.get('/browser/live/:token', async (_request, reply) =>
    reply.type('text/html').send('<!doctype html><html lang="en"><title>Live</title><h1>Screen</h1><button>Inside</button></html>'),
  )
  const built = keepBuilt(readBuilt)
  serveHostedPage(app, pagesOf(built))
  serveDashboard({ app, paths: new Map() } as unknown as MountContext, built)
  login.url = (await app.listen({ port: 0, host: '127.0.0.1' })).replace('[::1]', '127.0.0.1')
  return login
}
