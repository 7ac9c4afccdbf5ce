// For tests: apps deployed to a service over fake sandboxes, and runs of them as callers start them.
import { makeZip } from '../../../../test/support/zips.ts'
import { conforms } from '../../../../test/support/contract.ts'
import type { FastCloud } from '../../../../test/support/fast-cloud.ts'
import { until } from '../../../base/wait.ts'

/** Timeout for the service to notice a change by itself. Sweeps come every 5 s. */
export const NOTICE_MS = 20_000

export interface RunRecord {
  id: string
  status: 'queued' | 'running' | 'succeeded' | 'failed'
  output?: string
  status_reason?: string
  payload?: string
  started_at: string
  finished_at: string | null
  [field: string]: unknown
}

/** The parts of a service that these functions need. */
type Callable = Pick<FastCloud, 'fetch' | 'send' | 'query'>

/** Deploys an app with the fake actions (instances/fake/apps.ts). Resolves with the deployment's id when it runs. */
export async function deploy(cloud: Callable, { app = 'app', version = 'latest' } = {}): Promise<string> {
  const form = new FormData()
  form.set('file', new Blob([makeZip([{ name: 'index.ts', content: 'export {}' }])]), 'app.zip')
  form.set('entrypoint_rel_path', 'index.ts')
  form.set('version', version)
  form.set('force', 'true')
  const actions = ['echo', 'slow', 'logs', 'fail', 'hang', 'crash'].map((name) => ({ name }))
  form.set('env_vars[FAKE_APPS]', JSON.stringify([{ name: app, actions }]))
  const response = await cloud.fetch('/deployments', { method: 'POST', body: form })
  const { id } = (await response.json()) as { id: string }
  await until('the deployment to run', NOTICE_MS, async () => {
    const { status } = (await (await cloud.fetch(`/deployments/${id}`)).json()) as { status: string }
    if (status === 'failed') throw new Error('the deployment failed')
    return status === 'running'
  })
  return id
}

/** The calls about runs of a service. */
export function calling(cloud: Callable) {
  const post = (action: string, body: object = {}, headers: Record<string, string> = {}) =>
    cloud.fetch('/invocations', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ app_name: 'app', version: 'latest', action_name: action, ...body }),
    })
  const run = async (action: string, body: object = {}, headers: Record<string, string> = {}): Promise<RunRecord> => {
    const response = await post(action, body, headers)
    const answer = (await response.json()) as RunRecord
    if (!response.ok) throw new Error(`POST /invocations answered ${response.status}: ${JSON.stringify(answer)}`)
    conforms('InvocationCreateResponse', answer)
    return answer
  }
  const get = async (id: string): Promise<RunRecord> => {
    const response = await cloud.fetch(`/invocations/${id}`)
    const answer = (await response.json()) as RunRecord
    if (response.status !== 200) throw new Error(`GET /invocations/${id} answered ${response.status}: ${JSON.stringify(answer)}`)
    conforms('InvocationRetrieveResponse', answer)
    return answer
  }
  const until_ = (id: string, ...states: string[]): Promise<RunRecord> =>
    until(`run ${id} to be ${states.join(' or ')}`, NOTICE_MS, async () => {
      const record = await get(id)
      return states.includes(record.status) && record
    })
  return {
    post,
    /** Starts a run and waits for it (with async: true, starts it only). Throws when it is refused. */
    run,
    /** Begins a run and does not wait for it. */
    begin: async (action: string, body: object = {}) => (await run(action, { async: true, ...body })).id,
    get,
    becomes: until_,
    patch: async (id: string, body: object): Promise<RunRecord> => {
      const response = await cloud.send('PATCH', `/invocations/${id}`, body)
      const answer = (await response.json()) as RunRecord
      if (response.status !== 200) throw new Error(`PATCH answered ${response.status}: ${JSON.stringify(answer)}`)
      conforms('InvocationUpdateResponse', answer)
      return answer
    },
    /** The lines of a run in order, and its states. */
    received: async (id: string) => {
      const rows = await cloud.query<{ kind: string; line: string | null; state: string | null }>(
        'select kind, line, state from app_events where invocation_id = $1 order by id',
        [id],
      )
      return rows.map(({ kind, line, state }) => (kind === 'log' ? line : state))
    },
  }
}
