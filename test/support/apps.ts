// Apps for tests: archives made in memory, deployments over HTTP, event streams read frame by frame.
import { DEFAULT_PROJECT } from '../../src/control/access/projects/resolve.ts'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { ZipFile } from 'yazl'
import { newId } from '../../src/base/ids.ts'
import { silentLog, type Log } from '../../src/base/log.ts'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { until } from '../../src/base/wait.ts'
import { Rights } from '../../src/control/access/rights.ts'
import { Deployments, type DeploymentsSettings } from '../../src/control/apps/deployments/deployments.ts'
import { runnerEvents } from '../../src/control/apps/apps/runner-events.ts'
import { moveDeployment } from '../../src/control/apps/deployments/lifecycle.ts'
import { call } from '../../src/http/client.ts'
import type { FormPart } from '../../src/http/route.ts'
import { adoptAll, type Driver } from '../../src/instances/driver.ts'
import { fakeDriver } from '../../src/instances/fake/fake.ts'
import { runner as calls } from '../../src/runner/contract.ts'
import { openDb, type Db } from '../../src/store/db.ts'
import { startPostgres } from '../../src/store/embedded.ts'
import { listenForEvents, type EventNotifier } from '../../src/store/events.ts'
import { appendEvents } from '../../src/control/apps/apps/app-events.ts'
import { alone } from '../../src/store/leases.ts'
import { fileObjects } from '../../src/store/objects-files.ts'
import type { Objects } from '../../src/store/objects.ts'

export async function zipOf(files: Record<string, string | Buffer> = { 'index.ts': 'export {}' }): Promise<Buffer> {
  const zip = new ZipFile()
  for (const [name, content] of Object.entries(files)) zip.addBuffer(Buffer.from(content), name)
  zip.end()
  return buffer(zip.outputStream)
}

/** Sends requests with an API key, as a test's cloud does. */
export interface Service {
  fetch(path: string, init?: RequestInit): Promise<Response>
}

/** A deployment as callers see it. */
export interface Deployed {
  id: string
  status: string
  status_reason?: string
  env_vars: Record<string, string>
  [field: string]: unknown
}

export interface Deploy {
  files?: Record<string, string | Buffer>
  entrypoint?: string
  version?: string
  force?: boolean
  env?: Record<string, string>
}

/** Whether any of a deployment's code remains: its object, or a copy on the driver's disk. */
export const hasCode = (paths: DataPaths, id: string): boolean =>
  [join(paths.objects, 'code'), paths.apps].some((dir) => existsSync(dir) && readdirSync(dir).some((name) => name.includes(id)))

/** The form of a deployment, as the SDK sends it. */
export async function deployForm({ files, entrypoint = 'index.ts', version, force, env = {} }: Deploy = {}): Promise<FormData> {
  const form = new FormData()
  form.set('entrypoint_rel_path', entrypoint)
  for (const [name, value] of Object.entries(env)) form.set(`env_vars[${name}]`, value)
  form.set('file', new Blob([new Uint8Array(await zipOf(files))]), 'app.zip')
  if (version !== undefined) form.set('version', version)
  if (force !== undefined) form.set('force', String(force))
  return form
}

/** Deploys without waiting for the build. @throws when it is refused */
export async function deploy(service: Service, what: Deploy = {}): Promise<Deployed> {
  const response = await service.fetch('/deployments', { method: 'POST', body: await deployForm(what) })
  if (!response.ok) throw new Error(`POST /deployments answered ${response.status}: ${await response.text()}`)
  return (await response.json()) as Deployed
}

export async function getDeployment(service: Service, id: string): Promise<Deployed> {
  return (await (await service.fetch(`/deployments/${id}`)).json()) as Deployed
}

const BUILT_MS = 20_000

/** Waits until a deployment is in one of these states. */
export function reaches(service: Service, id: string, ...states: string[]): Promise<Deployed> {
  return until(`deployment ${id} to be ${states.join(' or ')}`, BUILT_MS, async () => {
    const found = await getDeployment(service, id)
    return states.includes(found.status) && found
  })
}

/** Deploys and waits until it runs. With the fake driver, variables say which apps it has (instances/fake/apps.ts). */
export async function deployed(service: Service, what: Deploy = {}): Promise<Deployed> {
  const { id } = await deploy(service, what)
  return reaches(service, id, 'running')
}

/** Environment variables from which the fake driver's build takes these apps, each with these actions. */
export const fakeApps = (apps: Record<string, string[]>): Record<string, string> => ({
  FAKE_APPS: JSON.stringify(Object.entries(apps).map(([name, actions]) => ({ name, actions: actions.map((action) => ({ name: action })) }))),
})

/** One event of a stream: its data, and its id when it has one. */
export interface Frame {
  id?: string
  data: { event: string; [field: string]: unknown }
}

/** The events of a stream as they arrive, until it ends. */
export async function* frames(response: Response): AsyncGenerator<Frame> {
  if (response.status !== 200) throw new Error(`the stream was refused: ${response.status} ${await response.text()}`)
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const [id, data] = [field('id'), field('data')]
      if (data !== undefined) yield { ...(id !== undefined && { id }), data: JSON.parse(data) as Frame['data'] }
    }
  }
}

/** All events of a stream that ends, or the events up to the first one for which `isEnough` is true. */
export async function readFrames(response: Response, isEnough: (frame: Frame) => boolean = () => false): Promise<Frame[]> {
  const read: Frame[] = []
  for await (const frame of frames(response)) {
    read.push(frame)
    if (isEnough(frame)) break
  }
  return read
}

/** A short form of events: `log: text`, `state: running`, `app: name`. */
export function inShort({ data }: Frame): string {
  const state = (data.deployment ?? data.invocation) as { status: string } | undefined
  if (state) return `state: ${state.status}`
  return data.event === 'log' ? `log: ${String(data.message)}` : data.event === 'app_version_summary' ? `app: ${String(data.app_name)}` : data.event
}

/** The parts of a deployment's form, as a handler receives them. */
export async function* deployParts({ files, entrypoint = 'index.ts', version, force, env = {} }: Deploy = {}): AsyncGenerator<FormPart> {
  yield { name: 'entrypoint_rel_path', value: entrypoint }
  yield { name: 'file', filename: 'app.zip', content: Readable.from([await zipOf(files)], { objectMode: false }) }
  for (const [name, value] of Object.entries(env)) yield { name: `env_vars[${name}]`, value }
  if (version !== undefined) yield { name: 'version', value: version }
  if (force !== undefined) yield { name: 'force', value: String(force) }
}

/** A data directory with a database and the fake driver. Several services can run in it, one after another. */
export interface AppHost extends AsyncDisposable {
  paths: DataPaths
  db: Db
  notifier: EventNotifier
  driver: Driver
  objects: Objects
  /** Everything that the services logged. */
  logged: { level: string; message: string; fields: object }[]
  /** The deployments of a new service, not started yet. They end with this object. */
  service(settings?: Partial<DeploymentsSettings>): Deployments
}

export const HOST = 'here'

export async function startAppHost(): Promise<AppHost> {
  await using scope = new AsyncDisposableStack()
  const paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-apps-')))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(60_000))
  scope.defer(() => postgres.stop())
  const db = await openDb(postgres.address, silentLog)
  scope.defer(() => db.destroy())
  const logged: AppHost['logged'] = []
  const at = (level: string) => (fields: object, message: string) => void logged.push({ level, message, fields })
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log }
  const notifier = scope.use(listenForEvents(postgres.address, log))
  const driver = fakeDriver(paths)
  scope.defer(async () => void (await Promise.all((await adoptAll(driver.apps)).map((instance) => instance[Symbol.asyncDispose]()))))
  const objects = fileObjects(paths.objects)
  const sealer = makeSealer(fixedKeys(Buffer.alloc(32, 7)), 'deployments')
  const services: Deployments[] = []
  scope.defer(async () => void (await Promise.all(services.map((service) => service[Symbol.asyncDispose]()))))
  const service = (settings: Partial<DeploymentsSettings> = {}) => {
    const usual = {
      db,
      notifier,
      leases: alone(newId()),
      rights: new Rights(db, log),
      objects,
      sealer,
      sandboxes: driver.apps,
      scope: HOST,
      apiUrl: () => 'http://127.0.0.1:1',
      gitBase: 'https://github.com',
      memoryMb: 512,
      maxCodeBytes: 1024 * 1024,
      logLevel: 'info',
    }
    const made = new Deployments({ ...usual, log, endRuns: async () => {}, ...settings })
    services.push(made)
    return made
  }
  const owner = scope.move()
  return { paths, db, notifier, driver, objects, logged, service, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/** Leaves a build as a killed service does: in progress, with a live sandbox that has finished, and `read` of its events stored. */
export async function leaveBuild(host: AppHost, before: Deployments, what: Deploy, read: number, { hasArchiveWhole = true } = {}): Promise<string> {
  const signal = AbortSignal.timeout(BUILT_MS)
  const { id } = await before.create(DEFAULT_PROJECT, deployParts(what), signal)
  const sandbox = newId()
  await moveDeployment(host.db, id, 'in_progress', null, { attempts: 1, sandbox_id: sandbox })
  const source = { type: 'archive', entrypoint: 'index.ts' } as const
  const runner = { id: sandbox, kind: 'build', source, env: await before.environment(id), memoryMb: 1, logLevel: 'info' } as const
  const instance = await host.driver.apps.start({ id: sandbox, apiUrl: 'http://127.0.0.1:1', runner }, signal)
  if (!hasArchiveWhole) return id
  await call(instance.runner, calls.sendArchive, { body: Readable.from(['zip']) }, { signal })
  for await (const events of runnerEvents(instance.runner, 0, signal)) {
    const kept = events.slice(0, read).flatMap((event) => (event.type === 'log' ? [{ kind: 'log' as const, line: event.line }] : []))
    await appendEvents(host.db, id, null, kept)
    await host.db.updateTable('deployments').set({ runner_seq: read }).where('id', '=', id).execute()
    break
  }
  return id
}
