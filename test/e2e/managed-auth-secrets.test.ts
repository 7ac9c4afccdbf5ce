// Secrets of a login must not leak. The test stores and types random secrets, and looks for them in every answer, the log, the database and all files. It also checks
// which calls are refused during a login.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { newId } from '../../src/base/ids.ts'
import { until } from '../../src/base/wait.ts'
import { newKey } from '../../src/control/access/keys.ts'
import { SETTABLE_CATEGORIES } from '../../src/agent/telemetry/contract.ts'
import { startLoginNet } from '../logins/net.ts'
import { canaries, startCanarySite, type CanaryHost, type CanarySite } from '../support/canary-site.ts'
import { forTests } from '../support/for-tests.ts'
import { askAgent, runInside } from '../support/inside.ts'
import { checkNow, driven, shown, timeline } from '../support/managed-auth.ts'
import { shareCloud } from '../support/shared-cloud.ts'

/** The limit of one step of a login, on a busy machine. */
const STEP_MS = 60_000

const EVERYTHING = { enabled: true, browser: Object.fromEntries(SETTABLE_CATEGORIES.map((name) => [name, { enabled: true }])) }

const user = canaries()
const own = new AsyncDisposableStack()
let site: CanarySite
let proxy: string
const cloud = forTests(() => shareCloud({ COB_LOG_LEVEL: 'trace' }))
beforeAll(async () => {
  site = own.use(await startCanarySite(user))
  const net = own.use(await startLoginNet([site]))
  proxy = (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: 'host.cob.internal', port: net.port } })).id!
  own.defer(() => cloud.client.proxies.delete(proxy))
})
afterAll(() => own.disposeAsync())

/** The bodies of all API answers. */
const answers: string[] = []
async function ask(path: string, init: RequestInit & { key?: string } = {}): Promise<{ status: number; body: string }> {
  const { key = cloud.key, ...rest } = init
  const response = await fetch(cloud.url + path, {
    ...rest,
    headers: { authorization: `Bearer ${key}`, ...(rest.body && { 'content-type': 'application/json' }), ...(rest.headers as object) },
    signal: AbortSignal.timeout(STEP_MS),
  })
  const body = Buffer.from(await response.arrayBuffer()).toString('latin1')
  answers.push(body)
  return { status: response.status, body }
}
const post = (path: string, body: object, method = 'POST') => ask(path, { method, body: JSON.stringify(body) })
const parsed = <T>({ body }: { body: string }) => JSON.parse(body) as T

let made = 0
async function connection(host: CanaryHost, more: object = {}) {
  const profile = `canary-${++made}`
  const wanted = { domain: site.hostOf(host), profile_name: profile, login_url: `http://${site.hostOf(host)}/login`, proxy: { id: proxy }, ...more }
  const { id } = parsed<{ id: string }>(await post('/auth/connections', wanted))
  return {
    id,
    profile,
    async [Symbol.asyncDispose]() {
      expect((await ask(`/auth/connections/${id}`, { method: 'DELETE' })).status).toBe(204)
      await ask(`/profiles/${profile}`, { method: 'DELETE' })
    },
  }
}
const login = async (id: string, body: object = {}) => parsed<{ handoff_code: string }>(await post(`/auth/connections/${id}/login`, body))
const asked = (id: string) =>
  until('a question', STEP_MS, async () => {
    const now = await shown(cloud, id)
    if (now.flow_status !== 'IN_PROGRESS') throw new Error(`the login has ended: ${now.flow_status} ${now.error_code} ${now.error_message}`)
    return now.flow_step === 'AWAITING_INPUT' && now.fields?.length ? now : undefined
  })
const ended = (id: string) =>
  until('the end of a login', STEP_MS, async () => ((now) => (now.flow_status === 'IN_PROGRESS' ? undefined : now))(await shown(cloud, id)))

/** The encodings in which a secret might be written. */
const FORMS = Object.entries(user).flatMap(([name, value]) =>
  [
    Buffer.from(value),
    Buffer.from(value, 'utf16le'),
    Buffer.from(Buffer.from(value).toString('hex')),
    Buffer.from(Buffer.from(value).toString('base64').replace(/=+$/, '').slice(0, -1)),
  ].map((bytes) => ({ name, bytes })),
)
const found = (where: string, content: Buffer | string): string[] => {
  const bytes = Buffer.from(content)
  return FORMS.filter((form) => bytes.includes(form.bytes)).map(({ name }) => `${name} in ${where}`)
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name)
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : []
  })
}
/** Skip larger files: an instance's disk is one sparse file of ten gigabytes, which the test searches from inside. */
const LARGE = 1_000_000_000
/** Searches all files below a folder. A file that vanishes during the search is skipped: other searches cover it. */
const inFiles = (dir: string): string[] =>
  filesBelow(dir).flatMap((path) => {
    try {
      const { size, mode } = lstatSync(path)
      // Only root can read these copies of the dynamic loader (local/loader.ts); their content is the system's.
      const isClosed = (mode & 0o444) === 0 && basename(path).startsWith('node-loader-')
      if (size > LARGE || isClosed) return []
      return found(path.slice(cloud.dataDir.length), readFileSync(path))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  })
async function inDatabase(): Promise<string[]> {
  const tables = await cloud.query<{ name: string }>(`select quote_ident(tablename) as name from pg_tables where schemaname = 'public'`)
  expect(tables.length).toBeGreaterThan(10)
  const rows = await Promise.all(tables.map(async ({ name }) => ({ name, rows: await cloud.query<{ row: string }>(`select t::text as row from ${name} t`) })))
  return rows.flatMap(({ name, rows: all }) => found(`table ${name}`, all.map(({ row }) => row).join('\n')))
}

/** Checks that no answer, log, table or file has a secret so far. */
async function assertNowhere(): Promise<void> {
  expect(answers.flatMap((body, at) => found(`answer ${at}: ${body.slice(0, 80)}`, Buffer.from(body, 'latin1')))).toEqual([])
  expect(found('the log', cloud.log())).toEqual([])
  expect(await inDatabase()).toEqual([])
  expect(inFiles(cloud.dataDir)).toEqual([])
}
/** Searches the profile that a caller downloads. It contains Chromium's tab history, which has the text typed into fields unless a field opts out. */
async function inProfile(name: string): Promise<string[]> {
  const archive = await fetch(`${cloud.url}/profiles/${name}/download?format=tar`, { headers: { authorization: `Bearer ${cloud.key}` } })
  expect(archive.status).toBe(200)
  return found('the profile', Buffer.from(await archive.arrayBuffer()))
}

/** The width of each letter in a field: columns with ink between columns without. The site's fields are yellow. */
function inked(png: Buffer): number[] {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  const raw = execFileSync('ffmpeg', ['-v', 'error', '-i', '-', '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-'], { input: png, maxBuffer: width * height * 4 })
  const at = (x: number, y: number) => raw.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)
  const isYellow = (x: number, y: number) => ((c) => c[0]! > 240 && c[1]! > 240 && c[2]! < 60)(at(x, y))
  const rows = Array.from({ length: height }, (_, y) => y).filter((y) => Array.from({ length: width }, (_x, x) => isYellow(x, y)).filter(Boolean).length > 200)
  const top = rows[0]!
  const bottom = rows.find((y, index) => rows[index + 1] !== y + 1)!
  const left = Array.from({ length: width }, (_, x) => x).findIndex((x) => isYellow(x, top))
  const right = Array.from({ length: width }, (_, x) => x).findLastIndex((x) => isYellow(x, top))
  const widths: number[] = []
  let run = 0
  for (let x = left; x <= right; x++) {
    const hasInk = Array.from({ length: bottom - top + 1 }, (_, y) => isYellow(x, top + y)).includes(false)
    if (hasInk) run++
    else if (run > 0) {
      widths.push(run)
      run = 0
    }
  }
  return widths
}

test('nothing that is stored or typed for a login can be read anywhere, while it goes on and afterwards', async () => {
  const stored = parsed<{ id: string }>(
    await post('/credentials', { name: 'canary', domain: site.hostOf('totp'), values: { username: user.username }, totp_secret: user.totpSecret }),
  )
  {
    await using it = await connection('totp', { credential: { name: 'canary' }, record_session: true, browser: { telemetry: EVERYTHING } })
    await login(it.id)
    const question = await asked(it.id)
    expect(question.fields!.map(({ ref }) => ref)).toEqual(['password'])
    const id = question.browser_session_id!
    const letGo = site.hold()
    expect((await post(`/auth/connections/${it.id}/submit`, { fields: { password: user.password } })).status).toBe(202)
    // The form has been sent, and its page stays filled in while it waits.
    await until('the form at the site', STEP_MS, () => site.tries('totp') === 1, { everyMs: 50 })
    const letters = inked(await askAgent(cloud, id, '/computer/screenshot', {}))
    const whileFilled = inFiles(join(cloud.dataDir, 'instances', id))
    const inside = await runInside(
      cloud,
      id,
      `sync; grep -rlaF -D skip ${Object.values(user)
        .map((value) => `-e ${value}`)
        .join(' ')} /home /tmp /var /run /dev/shm 2>&1`,
    )
    letGo()
    // The picture shows equal discs; letters of the name would have different widths.
    expect(letters).toHaveLength(user.username.length)
    expect(Math.max(...letters) - Math.min(...letters)).toBeLessThanOrEqual(2)
    expect(whileFilled).toEqual([])
    expect(inside.output.split('\n').filter((line) => line !== '' && !line.startsWith('grep: '))).toEqual([])
    const { end } = await driven(cloud, it.id, { value: () => undefined })
    expect(end).toMatchObject({ flow_status: 'SUCCESS' })
    const [item] = await timeline(cloud, it.id)
    expect(item).toMatchObject({ status: 'SUCCESS', telemetry_captured: true, browser_session_id: id })
    for (const path of [
      `/auth/connections/${it.id}`,
      `/auth/connections/${it.id}/timeline`,
      `/auth/connections/${it.id}/events`,
      '/auth/connections',
      '/credentials',
      `/credentials/${stored.id}`,
      `/credentials/${stored.id}/totp-code`,
      `/browsers/${id}/telemetry/events?since=1h&limit=100`,
      `/browsers/${id}/telemetry/events?since=1h&limit=100&offset=100`,
      `/browsers/${id}/har`,
      `/browsers/${id}?include_deleted=true`,
      '/browsers?include_deleted=true',
      '/metrics',
    ])
      expect([path, (await ask(path)).status]).toEqual([path, 200])
    expect(await inProfile(it.profile)).toEqual([])
    await until('the film', STEP_MS, async () => (await ask(`/browsers/${id}/replays/${item!.replay_id}`)).status === 200)
  }
  await assertNowhere()
  await ask(`/credentials/${stored.id}`, { method: 'DELETE' })
})

test('a site that repeats names, and sends them with passwords in addresses, has none of them told or stored', async () => {
  const { id: stored } = parsed<{ id: string }>(await post('/credentials', { name: 'echoed', domain: site.hostOf('get'), values: { username: user.username } }))
  {
    await using it = await connection('get', { credential: { name: 'echoed' }, browser: { telemetry: EVERYTHING } })
    await login(it.id)
    const first = await asked(it.id)
    const wrong = `${user.password}-wrong`
    expect((await post(`/auth/connections/${it.id}/submit`, { fields: { password: wrong } })).status).toBe(202)
    const said = 'The password for the user [redacted] is wrong.'
    const again = await until('another question', STEP_MS, async () => ((now) => (now.website_error ? now : undefined))(await shown(cloud, it.id)))
    expect(again).toMatchObject({ website_error: said, flow_step: 'AWAITING_INPUT' })
    expect((await post(`/auth/connections/${it.id}/submit`, { fields: { username: user.username, password: user.password } })).status).toBe(202)
    const end = await ended(it.id)
    expect(end).toMatchObject({ flow_status: 'SUCCESS', post_login_url: `http://${site.hostOf('get')}/login` })
    // The address that contains the password was requested once. A check opens the other address.
    const withPassword = () => site.requests.filter(({ path }) => new URL(path, 'http://x').searchParams.get('password') === user.password).length
    expect(withPassword()).toBe(1)
    expect(await checkNow(cloud, it.id)).toMatchObject({ status: 'AUTHENTICATED' })
    expect(withPassword()).toBe(1)
    for (const path of [
      `/auth/connections/${it.id}`,
      `/auth/connections/${it.id}/timeline`,
      `/auth/connections/${it.id}/events`,
      `/browsers/${first.browser_session_id}/har`,
    ])
      expect([path, (await ask(path)).status]).toEqual([path, 200])
    expect(await inProfile(it.profile)).toEqual([])
  }
  await assertNowhere()
  await ask(`/credentials/${stored}`, { method: 'DELETE' })
})

test('other projects see nothing of a login, its token opens three routes, and its browser is closed to all callers but for the live view', async () => {
  await using it = await connection('plain')
  const { handoff_code: code } = await login(it.id)
  const { browser_session_id: id } = await asked(it.id)
  const at = `/browsers/${id}`

  const [project, key] = [newId(), newKey()]
  await cloud.query('insert into projects (id, name) values ($1, $2)', [project, `other-${project}`])
  await cloud.query('insert into api_keys (id, name, hash, masked, project_id) values ($1, $2, $3, $4, $5)', [
    newId(),
    'other',
    createHash('sha256').update(key).digest(),
    'm',
    project,
  ])
  const connected = `/auth/connections/${it.id}`
  for (const path of [connected, `${connected}/timeline`, `${connected}/events`, at, `${at}/telemetry/events`, `${at}/replays`])
    expect([path, (await ask(path, { key })).status]).toEqual([path, 404])
  expect((await ask(`${connected}/login`, { key, method: 'POST' })).status).toBe(404)
  expect(parsed<unknown[]>(await ask('/auth/connections', { key }))).toEqual([])

  const { jwt } = parsed<{ jwt: string }>(await post(`${connected}/exchange`, { code }))
  expect((await post(`${connected}/exchange`, { code })).status).toBe(401)
  expect((await ask(connected, { key: jwt })).status).toBe(200)
  for (const [path, method] of [
    [connected, 'DELETE'],
    [connected, 'PATCH'],
    [`${connected}/login`, 'POST'],
    [`${connected}/timeline`, 'GET'],
    ['/auth/connections', 'GET'],
    ['/credentials', 'GET'],
    ['/browsers', 'GET'],
    [at, 'GET'],
    [`${at}?jwt=${jwt}`, 'GET'],
    [`${at}/computer/screenshot`, 'POST'],
  ] as const)
    expect([path, method, (await ask(path, { key: jwt, method })).status]).toEqual([path, method, 401])

  const { cdp_ws_url: cdp, webdriver_ws_url: bidi, base_url: base } = parsed<{ cdp_ws_url: string; webdriver_ws_url: string; base_url: string }>(await ask(at))
  const token = new URL(cdp).searchParams.get('jwt')!
  const tools: [method: string, path: string, body?: object][] = [
    ['POST', '/computer/screenshot', {}],
    ['POST', '/computer/type', { text: 'x' }],
    ['POST', '/computer/clipboard/read', {}],
    ['POST', '/playwright/execute', { code: 'return 1' }],
    ['GET', '/fs/read_file?path=/etc/hostname'],
    ['GET', '/fs/list_files?path=/'],
    ['GET', '/fs/download_dir_zip?path=/tmp'],
    ['PUT', '/fs/write_file?path=/tmp/x', {}],
    ['POST', '/process/exec', { command: 'true' }],
    ['POST', '/process/spawn', { command: 'true' }],
    ['POST', '/curl', { url: 'http://example.test/' }],
    ['GET', '/logs/stream?source=path&path=/tmp/x'],
  ]
  for (const [method, path, body] of tools) {
    const init = {
      method,
      ...(body && { body: JSON.stringify(body) }),
      ...(path.startsWith('/fs/write') && { headers: { 'content-type': 'application/octet-stream' } }),
    }
    expect([path, (await ask(at + path, init)).status]).toEqual([path, 409])
    const url = new URL(base + path)
    url.searchParams.set('jwt', token)
    const headers = init.headers ?? (body ? { 'content-type': 'application/json' } : {})
    const byToken = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(STEP_MS) })
    expect([url.pathname, byToken.status, await byToken.text()]).toEqual([url.pathname, 409, expect.stringContaining('login')])
  }
  for (const change of [{ viewport: { width: 1024, height: 768 } }, { profile: { name: it.profile } }, { telemetry: { enabled: true } }])
    expect([change, (await post(at, change, 'PATCH')).status]).toEqual([change, 409])
  const extension = new FormData()
  extension.set('extensions.zip_file', new Blob(['x']), 'x.zip')
  extension.set('extensions.name', 'x')
  const loaded = await fetch(`${cloud.url}${at}/extensions`, { method: 'POST', body: extension, headers: { authorization: `Bearer ${cloud.key}` } })
  expect(loaded.status).toBe(409)
  for (const url of [cdp, bidi, `${cloud.url.replace('http', 'ws')}${at}/cdp?jwt=${token}`]) {
    const socket = new WebSocket(url)
    const refused = await new Promise<string>((resolve) => {
      socket.on('open', () => resolve('open'))
      socket.on('error', (error) => resolve(error.message))
      socket.on('message', () => resolve('a message'))
    })
    socket.terminate()
    expect([new URL(url).pathname, refused]).toEqual([new URL(url).pathname, expect.stringContaining('409')])
  }
  // A caller who may start a login may end it. The password was sent first, because otherwise the login would continue in another browser.
  const first = (await shown(cloud, it.id)).interaction_id
  expect((await post(`${connected}/submit`, { fields: { username: user.username, password: 'wrong' } })).status).toBe(202)
  await until('another question', STEP_MS, async () => ((now) => now.flow_step === 'AWAITING_INPUT' && now.interaction_id !== first)(await shown(cloud, it.id)))
  expect((await ask(at, { method: 'DELETE' })).status).toBe(204)
  expect(await ended(it.id)).toMatchObject({ flow_status: 'FAILED', error_code: 'browser_error' })
})

test.each(['lured', 'fleeing'] as const)('a page that leads to thieves (%s) has nothing typed there, neither names, nor keys', async (host) => {
  const credential = `canary-${host}`
  const { id: stored } = parsed<{ id: string }>(
    await post('/credentials', { name: credential, domain: site.hostOf(host), values: { username: user.username, password: user.password } }),
  )
  const before = site.stolen().length
  {
    await using it = await connection(host, { credential: { name: credential } })
    await login(it.id)
    // If the login cannot use the page, it asks its user or ends. In both cases nothing was typed.
    const end = await until('the end of a login, or a question', STEP_MS, async () => {
      const now = await shown(cloud, it.id)
      return now.flow_status === 'IN_PROGRESS' && now.flow_step !== 'AWAITING_INPUT' ? undefined : now
    })
    if (host === 'lured') expect(end).toMatchObject({ flow_status: 'FAILED', error_code: 'domain_not_allowed' })
    expect(end.flow_status).not.toBe('SUCCESS')
    expect(site.requests.some(({ host: asked }) => asked.endsWith('evil.test'))).toBe(true)
    // The page may have received a key without a character, such as Shift.
    const stolen = site.stolen().slice(before)
    expect(stolen.filter((what) => !/^(Shift|Enter|Unidentified)?$/.test(what))).toEqual([])
    expect(site.tries(host)).toBe(0)
  }
  await ask(`/credentials/${stored}`, { method: 'DELETE' })
})
