// For tests: runs over a real database and fake sandboxes, without a service. Rows are inserted as deployments leave them.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { adoptAll } from '../../../instances/driver.ts'
import { readdirSync, rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { copyTemplate } from '../../../../test/support/template.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { dataPaths, type DataPaths } from '../../../base/paths.ts'
import type { AppCode, AppSandbox, Driver } from '../../../instances/driver.ts'
import { fakeDriver } from '../../../instances/fake/fake.ts'
import { openDb, type Db } from '../../../store/db.ts'
import { startPostgres } from '../../../store/embedded.ts'
import { listenForEvents, type EventNotifier } from '../../../store/events.ts'
import { moveInvocation, type InvocationState } from './lifecycle.ts'
import { findInvocation, insertQueued, type InvocationRow } from './rows.ts'
import { Runs, type RunsSettings } from './runs.ts'

const START_MS = 60_000
export const HOST = 'here'

export interface Lab extends AsyncDisposable {
  paths: DataPaths
  db: Db
  notifier: EventNotifier
  driver: Driver
  /** Variables for the code of every deployment. A test may set some. */
  env: Record<string, string>
  /** The callbacks that the runs have made. */
  received: { retired: string[]; endedBrowsersOf: string[] }
  runs(settings?: Partial<RunsSettings>): Runs
  deployment(host?: string): Promise<string>
  /** A queued run of the app of {@link deployment}. `follower` is the replica in its row; by default a service that has ended. */
  queued(wanted: { deployment: string; action: string; payload?: string; timeoutSeconds?: number }, follower?: Pick<Runs, 'replica'>): Promise<InvocationRow>
  /** A run as a killed service leaves it. */
  left(wanted: { deployment: string; action: string; payload?: string; state: InvocationState; runner?: string; secondsAgo?: number }): Promise<InvocationRow>
  sandbox(deployment: string): Promise<AppSandbox>
  row(id: string): Promise<InvocationRow>
  /** The lines and states of a run, in order. */
  log(id: string): Promise<(string | null)[]>
  sandboxes(): string[]
  /** Ends everything that a test has started. */
  clear(): Promise<void>
}

/** A deployment's code, for fake sandboxes. */
const codeOf = (deployment: string): AppCode => ({ key: `code/${deployment}.x`, bytes: 4, open: async () => Readable.from(['code']) })

export async function startLab(): Promise<Lab> {
  await using scope = new AsyncDisposableStack()
  const paths = dataPaths(scratchDir('cob-runs-'))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  const db = await openDb(postgres.address, silentLog)
  scope.defer(() => db.destroy())
  const notifier = scope.use(listenForEvents(postgres.address, silentLog))
  const driver = fakeDriver(paths)
  const started: Runs[] = []
  const lab: Omit<Lab, typeof Symbol.asyncDispose> = {
    paths,
    db,
    notifier,
    driver,
    env: {},
    received: { retired: [], endedBrowsersOf: [] },
    runs(settings = {}) {
      const runs = new Runs({
        db,
        notifier,
        driver,
        scope: HOST,
        apiUrl: Promise.resolve('http://127.0.0.1:1'),
        maxInvocations: 100,
        appMemoryMb: 256,
        logLimits: { runBytes: 32 * 1024 * 1024, deploymentBytes: 256 * 1024 * 1024 },
        logLevel: 'silent',
        log: silentLog,
        environment: async () => lab.env,
        code: async (deployment) => codeOf(deployment),
        retire: async (deployment) => lab.received.retired.push(deployment),
        endBrowsers: async (invocation) => void lab.received.endedBrowsersOf.push(invocation),
        endBrowsersLeft: async () => {},
        building: async () => new Set(),
        ...settings,
      })
      started.push(runs)
      return runs
    },
    async deployment(host = HOST) {
      const id = newId()
      const text = { id, scope: host, project_id: DEFAULT_PROJECT, state: 'running', region: 'aws.us-east-1a', env_keys: '[]' }
      await db
        .insertInto('deployments')
        .values(text as never)
        .execute()
      const actions = ['echo', 'slow', 'logs', 'fail', 'hang', 'crash'].map((name) => ({ name }))
      await db
        .insertInto('app_versions')
        .values({ id: newId(), project_id: DEFAULT_PROJECT, app_name: `app-${id}`, version: 'latest', deployment_id: id, actions: JSON.stringify(actions) })
        .execute()
      return id
    },
    async queued({ deployment, action, payload, timeoutSeconds = 900 }, follower) {
      const made = {
        id: newId(),
        project: DEFAULT_PROJECT,
        app_name: `app-${deployment}`,
        version: 'latest',
        action_name: action,
        payload: payload ?? null,
        isAsync: true,
      }
      const row = await insertQueued(db, HOST, follower?.replica ?? 'the last service', { ...made, timeoutSeconds, caller: 'me', requestHash: Buffer.alloc(0) })
      if (!row) throw new Error('the run was not entered')
      return row
    },
    async left({ state, runner, secondsAgo = 0, ...wanted }) {
      const { id } = await lab.queued(wanted)
      const started_at = new Date(Date.now() - secondsAgo * 1000)
      await db.updateTable('invocations').set({ started_at }).where('id', '=', id).execute()
      if (state !== 'queued') await moveInvocation(db, id, state, null, { runner_id: runner ?? newId() })
      return lab.row(id)
    },
    sandbox: (deployment) => {
      const id = newId()
      const runner = { id, kind: 'run' as const, env: lab.env, memoryMb: 256, logLevel: 'silent' }
      return driver.apps.start({ id, code: codeOf(deployment), runner, apiUrl: 'http://127.0.0.1:1' }, new AbortController().signal)
    },
    async row(id) {
      return (await findInvocation(db, id))!
    },
    async log(id) {
      const rows = await db.selectFrom('app_events').select(['kind', 'line', 'state']).where('invocation_id', '=', id).orderBy('id').execute()
      return rows.map(({ kind, line, state }) => (kind === 'log' ? line : state))
    },
    sandboxes: () => readdirSync(paths.appSandboxes),
    async clear() {
      await Promise.all(started.splice(0).map((runs) => runs.stop()))
      await Promise.all((await adoptAll(driver.apps)).map((instance) => instance[Symbol.asyncDispose]()))
      await db.deleteFrom('deployments').execute()
      lab.env = {}
      lab.received = { retired: [], endedBrowsersOf: [] }
    },
  }
  const owner = scope.move()
  return Object.assign(lab, { [Symbol.asyncDispose]: () => owner.disposeAsync() })
}
