// Fills a service's data directory with one object of each kind, stops it and starts it elsewhere. Also runs commands of `cob` as users do.
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import pg from 'pg'
import { expect } from 'vitest'
import { readConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startControlPlane } from '../../src/control/main.ts'
import { deployed, fakeApps } from './apps.ts'
import { extensionForm, extensionZip } from './extensions.ts'
import { emit, EVERYTHING, allOf, texts } from './kept-telemetry.ts'
import { replicaCalls, type ReplicaCalls } from './replicas.ts'
import { KEYS, type S3Server } from './s3.ts'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'

const START_MS = 60_000
const SOON_MS = 20_000
/** Longer than a restore of a test's few rows and objects takes on a busy machine. */
const RUN_MS = 60_000

export type Env = Record<string, string>

export interface Running extends ReplicaCalls, AsyncDisposable {
  key: string
  paths: DataPaths
}

/** A service with fake browsers on a data directory. Disposing stops it as Ctrl-C does. */
export async function serviceOn(dataDir: string, env: Env = {}): Promise<Running> {
  const settings = { COB_DATA_DIR: dataDir, COB_PORT: '0', COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0', ...env }
  const plane = await startControlPlane(readConfig(settings), silentLog, AbortSignal.timeout(START_MS))
  const { value: key } = plane.key
  return { ...replicaCalls(plane.url, key), key, paths: dataPaths(dataDir), [Symbol.asyncDispose]: async () => plane[Symbol.asyncDispose]() }
}

/** The settings of a service with a bucket, by default `logs`. */
export const bucketOf = ({ url }: Pick<S3Server, 'url'>, prefix: string): Env => ({
  COB_S3_BUCKET: 'logs',
  COB_S3_ENDPOINT: url,
  COB_S3_ACCESS_KEY_ID: KEYS.accessKeyId,
  COB_S3_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
  COB_S3_PREFIX: prefix,
})

export interface Ended {
  code: number | null
  out: string
  err: string
}

/** Starts a command of `cob`. */
export function start(args: string[], env: Env, command: string): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(join(PACKAGE_DIR, 'bin/cob'), [command, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_MS,
  })
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]).then(([out, err]) => ({ code: child.exitCode, out, err }))
  return { child, ended }
}

export const run = (args: string[], env: Env, command: string): Promise<Ended> => start(args, env, command).ended

/** The setup key of one-time codes, and a password that no row and no output may show. */
export const CANARY = { totp: 'JBSWY3DPEHPK3PXP', password: 'canary-5f1c' }

/** What the filled service has, so that callers can compare it later. */
export interface Filled {
  session: string
  replay: string
  film: Buffer
  extension: Buffer
  deployment: string
  projectKey: string
}

async function json<T>(answer: Promise<Response>): Promise<T> {
  const response = await answer
  const body = await response.text()
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}: ${body}`)
  return JSON.parse(body) as T
}

/** Creates one object of each kind that a service stores, and secrets. */
export async function fill(service: Running): Promise<Filled> {
  const { fetch, send } = service
  const extension = extensionZip({ 'noise.txt': randomBytes(3_000).toString('hex') })
  expect((await fetch('/extensions', { method: 'POST', body: extensionForm(extension, 'noisy') })).status).toBe(201)
  await json(send('POST', '/profiles', { name: 'kept' }))
  await json(send('POST', '/credentials', { name: 'mine', domain: 'site.test', values: { password: CANARY.password }, totp_secret: CANARY.totp }))
  await json(send('POST', '/proxies', { type: 'custom', name: 'p', config: { host: 'proxy.test', port: 1, username: 'kim', password: CANARY.password } }))
  const project = await json<{ id: string }>(send('POST', '/org/projects', { name: 'Tëam "ä" \\N' }))
  const { key: projectKey } = await json<{ key: string }>(send('POST', '/org/api_keys', { name: 'of a project', project_id: project.id }))
  const { id: deployment } = await deployed(service, { env: { ...fakeApps({ app: ['echo'] }), SECRET: CANARY.password } })
  const ran = await json<{ status: string }>(send('POST', '/invocations', { app_name: 'app', version: 'latest', action_name: 'echo', payload: '{"a":1}' }))
  expect(ran.status).toBe('succeeded')
  const session = await service.create({ profile: { name: 'kept', save_changes: true }, telemetry: EVERYTHING, tags: { of: 'ä\\t\t\n"' } })
  const id = session.session_id
  await send('POST', `/browsers/${id}/computer/clipboard/write`, { text: 'remembered' })
  // Enough data that does not compress: small data would stay in its row.
  const noise = Array.from({ length: 30 }, (): ['console_log', object] => ['console_log', { text: randomBytes(1_500).toString('base64') }])
  await emit(service.paths, id, ['console_log', { text: 'line 0' }], ...(noise as ['console_log', Record<string, unknown>][]))
  const { replay_id: replay } = await json<{ replay_id: string }>(send('POST', `/browsers/${id}/replays`, {}))
  await sleep(200) // record a video of some length
  await fetch(`/browsers/${id}/replays/${replay}/stop`, { method: 'POST' })
  expect((await fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
  const client = new pg.Client({ host: service.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await client.connect()
  // The service merges segments in the background after the session has ended.
  const fresh = async () => (await client.query('select 1 from telemetry_segments where object is null')).rows
  try {
    await until('telemetry in an object', SOON_MS, async () => (await fresh()).length === 0, { everyMs: 20 })
  } finally {
    await client.end()
  }
  const film = await until('the film', SOON_MS, () => filmOf(service, id, replay), { everyMs: 50 })
  return { session: id, replay, film, extension, deployment, projectKey }
}

async function filmOf({ fetch }: Pick<Running, 'fetch'>, session: string, replay: string): Promise<Buffer | undefined> {
  const answer = await fetch(`/browsers/${session}/replays/${replay}`)
  const bytes = Buffer.from(await answer.arrayBuffer())
  return answer.status === 200 ? bytes : undefined
}

/** Reads everything back through the API, and creates new objects, which needs the database's sequences. */
export async function expectAll(service: Running, filled: Filled): Promise<void> {
  const { fetch, send } = service
  const session = await json<{ tags: object; deleted_at?: string }>(fetch(`/browsers/${filled.session}?include_deleted=true`))
  expect([session.tags, typeof session.deleted_at]).toEqual([{ of: 'ä\\t\t\n"' }, 'string'])
  expect((await filmOf(service, filled.session, filled.replay))?.equals(filled.film)).toBe(true)
  const extension = await fetch('/extensions/noisy')
  expect(Buffer.from(await extension.arrayBuffer()).equals(filled.extension)).toBe(true)
  const events = texts(await allOf(fetch, filled.session))
  expect([events[0], events.length]).toEqual(['line 0', 31])
  expect((await json<{ code: string }>(fetch('/credentials/mine/totp-code'))).code).toMatch(/^\d{6}$/)
  const [proxy] = (await json<{ name: string; config: object }[]>(fetch('/proxies'))).filter(({ name }) => name === 'p')
  expect(proxy?.config).toMatchObject({ username: 'kim' })
  expect((await json<{ env_vars: object }>(fetch(`/deployments/${filled.deployment}`))).env_vars).toHaveProperty('SECRET')
  const projects = await json<{ name: string }[]>(fetch('/org/projects'))
  expect(projects.map(({ name }) => name)).toContain('Tëam "ä" \\N')
  const ofProject = { headers: { authorization: `Bearer ${filled.projectKey}` } }
  expect((await globalThis.fetch(`${service.url}/browsers`, ofProject)).status).toBe(200)
  const ran = await json<{ status: string; output: string }>(
    send('POST', '/invocations', { app_name: 'app', version: 'latest', action_name: 'echo', payload: '{"b":2}' }),
  )
  expect(ran.status).toBe('succeeded')
  const { session_id: next } = await service.create({ profile: { name: 'kept', save_changes: true }, extensions: [{ name: 'noisy' }] })
  const { text: remembered } = await json<{ text: string }>(fetch(`/browsers/${next}/computer/clipboard/read`, { method: 'POST' }))
  expect(remembered).toBe('remembered')
  expect((await fetch(`/browsers/${next}?wait=true`, { method: 'DELETE' })).status).toBe(204)
}
