// For tests: a worker that acts as the engine of another replica; and a service with it.
import { fixedKeys } from '../../../base/keys.ts'
import { readFileSync } from 'node:fs'
import { sql, type RawBuilder } from 'kysely'
import { afterAll, expect } from 'vitest'
import { startFastCloud } from '../../../../test/support/fast-cloud.ts'
import { silentLog } from '../../../base/log.ts'
import type { DataPaths } from '../../../base/paths.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { until } from '../../../base/wait.ts'
import { connectDb, type Db } from '../../../store/db.ts'
import { listenForEvents } from '../../../store/events.ts'
import type { Connection } from './contract.ts'
import type { Learned, Pause } from './flow.ts'
import type { FlowRow } from './flow-rows.ts'
import { Flows, type FlowsSettings } from './flows.ts'
import { makeHandOff } from './hand-off.ts'

const CLAIM_MS = 10_000

export interface Worker extends AsyncDisposable {
  db: Db
  flows: Flows
  scope: string
  /** The next unclaimed flow of this connection. */
  claim(connectionId: string): Promise<FlowRow>
  /** Another worker with its own replica. */
  as(replica: string, more?: Partial<FlowsSettings>): Flows
}

export function startWorker(paths: DataPaths, more: Partial<FlowsSettings> = {}): Worker {
  const address = { host: paths.postgresSocket, user: 'cob', database: 'postgres' }
  const db = connectDb(address, silentLog)
  const notifier = listenForEvents(address, silentLog)
  const scope = readFileSync(paths.hostId, 'utf8').trim()
  const secretKey = Buffer.from(readFileSync(paths.secretKey, 'utf8').trim(), 'hex')
  const as = (replica: string, others: Partial<FlowsSettings> = {}): Flows =>
    new Flows({
      db,
      scope,
      leases: { replica, isDead: (column: RawBuilder<unknown>) => sql`(${column} is null or ${column} = 'dead')` },
      notifier,
      sealer: makeSealer(fixedKeys(secretKey), 'auth-flows'),
      codeOf: makeHandOff(db, secretKey, scope).codeOf,
      maxPending: 1000,
      canReauth: async () => true,
      ...more,
      ...others,
    })
  const flows = as('worker')
  return {
    db,
    flows,
    scope,
    as,
    claim: (connectionId) =>
      until('a flow to claim', CLAIM_MS, async () => {
        const flow = await flows.claimNext()
        return flow?.connection_id === connectionId ? flow : undefined
      }),
    async [Symbol.asyncDispose]() {
      await notifier[Symbol.asyncDispose]()
      await db.destroy()
    },
  }
}

export const json = async <T>(response: Response) => (await response.json()) as T

/** A service without an engine, the worker that replaces it, and calls about connections. It ends after the tests of the file. */
export async function serviceWithWorker(settings: Record<string, string> = {}) {
  const scope = new AsyncDisposableStack()
  afterAll(() => scope.disposeAsync())
  const cloud = scope.use(await startFastCloud({ COB_WARM_BROWSERS: '0', COB_MAX_LOGINS: '50', ...settings }))
  const worker = scope.use(startWorker(cloud.paths))
  let made = 0
  /** A connection with its own profile. */
  const wanted = (more: object = {}) => ({ domain: 'site.test', profile_name: `profile-${++made}`, ...more })
  async function create(more: object = {}): Promise<Connection> {
    const response = await cloud.send('POST', '/auth/connections', wanted(more))
    if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
    return json(response)
  }
  const read = async (id: string) => json<Connection>(await cloud.fetch(`/auth/connections/${id}`))
  const login = (id: string, body: object = {}) => cloud.send('POST', `/auth/connections/${id}/login`, body)
  const submit = (id: string, body: object) => cloud.send('POST', `/auth/connections/${id}/submit`, body)
  /** A login of this connection, claimed by the worker. */
  async function begin(id: string): Promise<FlowRow> {
    expect((await login(id)).status).toBe(200)
    return worker.claim(id)
  }
  const succeed = (flow: string, postLoginUrl?: string) => worker.flows.finish(flow, { state: 'SUCCESS', postLoginUrl, learned: LEARNED })
  return { cloud, worker, wanted, create, read, login, submit, begin, succeed }
}

export const LEARNED: Learned = {
  requirements: ['identifier', 'password'],
  keys: ['username', 'password'],
  ssoProvider: undefined,
  steps: [],
  loginPath: '/login',
  marks: { cookies: [], signsOut: true, redirects: false },
}

/** The question of a page with user and password, a button of another service and two methods. */
export const pauseOf = (interactionId: string): Pause => {
  const field = { placeholder: '', required: true, hint: undefined, reason: 'missing' as const, options: undefined, codeBy: undefined }
  const choice = { provider: undefined, mfa: undefined, maskedDestination: undefined, description: undefined }
  return {
    interactionId,
    fields: [
      { ...field, id: 'f1', key: 'email', role: 'identifier', label: 'Email', selector: '//input[1]' },
      { ...field, id: 'f2', key: 'password', role: 'password', label: 'Password', selector: '//input[2]' },
    ],
    choices: [
      { ...choice, id: 'c1', type: 'sso_provider', label: 'Continue with GitHub', provider: 'github', selector: '//a[1]' },
      { ...choice, id: 'c2', type: 'mfa_method', label: 'Text message', mfa: 'sms', maskedDestination: '•••92', selector: '//a[2]' },
      { ...choice, id: 'c3', type: 'account', label: 'kim@example.com', selector: '//a[3]' },
    ],
    external: undefined,
  }
}
