// The right that each route needs, and each role on each route. A new route must be added to the table here.
import { beforeAll, describe, expect, test } from 'vitest'
import { contracts } from '../src/control/modules.ts'
import { cdpHttpEverywhere } from '../src/control/sessions/browsers/cdp-http.ts'
import { atSession, instanceApis } from '../src/control/sessions/browsers/instance-apis.ts'
import { DEFAULT_PROJECT } from '../src/control/access/projects/resolve.ts'
import { replays } from '../src/control/sessions/replays/contract.ts'
import { includes, ROLES, type Role, type Route } from '../src/http/route.ts'
import { fastCloud } from './support/fast-cloud.ts'
import { signedIn, type SignedIn } from './support/people.ts'

const all = contracts.flatMap((contract) => Object.values(contract)).filter(({ access }) => access !== 'public')

/** Routes that only read. Their answers must contain nothing with which a reader can act. */
const VIEW = `
  listBrowsers getBrowser getBrowserThumbnail listReplays downloadReplay listTelemetryEvents exportHar captureScreenshot getMousePosition fileInfo listFiles streamFsEvents processStatus
  streamProcessOutput streamLogs streamTelemetry listBrowserPools getBrowserPool listProfiles getProfile listProfileVersions listProxies getProxy listCredentials
  getCredential listTelemetryDestinations getTelemetryDestination listAuthConnections getAuthConnection followAuthConnection listAuthConnectionTimeline
  listCredentialProviders getCredentialProvider listDeployments getDeployment followDeployment listApps listInvocations getInvocation followInvocation
  listInvocationBrowsers listExtensions downloadFromChromeStore downloadExtension getExtension listProjects getProject getProjectLimits getOrgLimits getAuthContext
  getEntitlements getMetrics getMe answerAuthorizationRequest listAllowedPrograms endAllowedProgram`

/** Routes that change something, or give the power to: tokens, files of a session (with its cookies), codes, requests from inside. */
const USE = `
  createBrowser updateBrowser deleteBrowser cdpVersion cdpList cdpPages cdpProtocol startReplay stopReplay deleteTelemetry deleteOldTelemetry batchActions clickMouse dragMouse
  moveMouse pressKey readClipboard scroll setCursorVisibility typeText writeClipboard curl curlRawGet curlRawPost curlRawPut curlRawPatch curlRawDelete
  executePlaywright createDirectory deleteDirectory deleteFile downloadDirZip moveFile readFile setFilePermissions uploadFiles uploadZip writeFile startFsWatch
  stopFsWatch execProcess spawnProcess writeProcessStdin killProcess resizeProcessTerminal loadExtensions createBrowserPool updateBrowserPool deleteBrowserPool
  acquireBrowser releaseBrowser flushBrowserPool createProfile updateProfile deleteProfile downloadProfile restoreProfileVersion createProxy updateProxy deleteProxy
  checkProxy createCredential updateCredential deleteCredential getCredentialTotpCode createAuthConnection updateAuthConnection deleteAuthConnection
  loginAuthConnection submitAuthConnection listCredentialProviderItems testCredentialProvider createDeployment deleteDeployment createInvocation updateInvocation
  deleteInvocationBrowsers uploadExtension deleteExtension`

/** Routes that decide who may do what, or where data goes. */
const OWN = `
  createTelemetryDestination updateTelemetryDestination deleteTelemetryDestination createCredentialProvider updateCredentialProvider deleteCredentialProvider
  createApiKey listApiKeys getApiKey updateApiKey deleteApiKey rotateApiKey createProject updateProject deleteProject updateProjectLimits updateOrgLimits
  listAuditLogs exportAuditLogs createAuditLogExportDestination listAuditLogExportDestinations getAuditLogExportDestination updateAuditLogExportDestination
  deleteAuditLogExportDestination testAuditLogExportDestination inviteMember listMembers getMember updateMember removeMember`

const words = (text: string): string[] => text.trim().split(/\s+/).toSorted()

test.each([
  ['view', VIEW],
  ['use', USE],
  ['own', OWN],
] as const)('exactly these routes need the right "%s"', (right, names) => {
  expect(
    all
      .filter((route) => route.right === right)
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(words(names))
})

let people: Record<Role, SignedIn>
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  const [viewer, member, owner] = await Promise.all(ROLES.map((role) => signedIn(cloud, { [DEFAULT_PROJECT]: role })))
  people = { viewer: viewer!, member: member!, owner: owner! }
})

/** Includes the routes that openapi.json leaves out because they exist at two paths. */
const everyRoute: Route[] = [
  ...all,
  ...[...cdpHttpEverywhere.slice(1), atSession(instanceApis), atSession(replays)].flatMap((contract) => Object.values(contract)),
].toSorted((a, b) => a.path.localeCompare(b.path))

describe.each(ROLES)('a %s', (role) => {
  test('gets past the check of each route exactly when the role includes its right, whatever is named', { timeout: 60_000 }, async () => {
    const wrong: string[] = []
    for (const { method, path, right } of everyRoute) {
      const response = await people[role].fetch(path.replaceAll(/\{\w+\}/g, 'nothing-of-this-name'), { method, signal: AbortSignal.timeout(20_000) })
      const text = response.headers.get('content-type')?.includes('json') ? await response.text() : (await response.body?.cancel(), '')
      const isRefused = response.status === 403 && text.includes(`your role in this project is ${role}`)
      if (isRefused === includes(role, right) || response.status === 401 || response.status >= 500) wrong.push(`${method} ${path}: ${response.status}`)
    }
    expect(wrong).toEqual([])
  })

  test('gets the head of what it may get, and nothing of the rest', async () => {
    expect((await people[role].fetch('/browsers', { method: 'HEAD' })).status).toBe(200)
    expect((await people[role].fetch('/org/api_keys', { method: 'HEAD' })).status).toBe(role === 'owner' ? 200 : 403)
  })
})

describe('a viewer', () => {
  test('sees sessions without tokens, and a live view that cannot act', async () => {
    const made = await cloud.create({ name: 'seen' })
    const path = `/browsers/${made.session_id}`
    const own = (await (await people.member.fetch(path)).json()) as Record<string, string>
    expect(own.cdp_ws_url).toContain('?jwt=')
    for (const url of [path, '/browsers', `/browsers?status=all`]) {
      const text = await (await people.viewer.fetch(url)).text()
      expect(text).not.toContain('jwt')
      expect(text).not.toContain(new URL(own.browser_live_view_url!).pathname)
    }
    const seen = (await (await people.viewer.fetch(path)).json()) as Record<string, string>
    expect(seen).toMatchObject({ session_id: made.session_id, name: 'seen' })
    const watch = new URL(seen.browser_live_view_url!).pathname
    expect((await fetch(cloud.url + watch)).status).toBe(200)
    // The letter before the token's signature of 32 characters says what the link allows: `w` watches, `c` controls.
    expect(watch.at(-33)).toBe('w')
    expect(new URL(own.browser_live_view_url!).pathname.at(-33)).toBe('c')
    // Without a token these routes refuse.
    for (const tool of ['/computer/click_mouse', '/process/exec', '/curl/raw?url=http://x.test']) {
      const refused = await people.viewer.fetch(path + tool, { method: tool.startsWith('/curl') ? 'GET' : 'POST' })
      expect(refused.status).toBe(403)
      expect((await fetch(seen.base_url + tool, { method: tool.startsWith('/curl') ? 'GET' : 'POST' })).status).toBe(401)
    }
  })

  test('sees a login in progress, without the addresses by which it can be gone on with', async () => {
    const connection = (await (await cloud.send('POST', '/auth/connections', { domain: 'site.test', profile_name: 'seen' })).json()) as { id: string }
    const begun = (await (await cloud.send('POST', `/auth/connections/${connection.id}/login`, {})).json()) as { hosted_url: string }
    expect(begun.hosted_url).toContain('code=')
    const path = `/auth/connections/${connection.id}`
    expect(await (await people.member.fetch(path)).json()).toMatchObject({ hosted_url: begun.hosted_url })
    expect(await (await people.viewer.fetch(path)).json()).toMatchObject({ hosted_url: null, live_view_url: null, flow_status: 'IN_PROGRESS' })
    expect(await (await people.viewer.fetch('/auth/connections')).json()).toMatchObject([{ hosted_url: null, live_view_url: null }])
    const events = await people.viewer.fetch(`${path}/events`, { signal: AbortSignal.timeout(20_000) })
    let first = ''
    for await (const piece of events.body!.pipeThrough(new TextDecoderStream())) if ((first += piece).includes('data: ')) break
    expect(first).not.toMatch(/hosted_url|live_view_url|code=/)
    await cloud.fetch(path, { method: 'DELETE' })
  })
})

describe('projects', () => {
  test('a person sees only theirs, and what a role allows is decided in each', async () => {
    const other = ((await (await cloud.send('POST', '/org/projects', { name: 'roles other' })).json()) as { id: string }).id
    const third = ((await (await cloud.send('POST', '/org/projects', { name: 'roles third' })).json()) as { id: string }).id
    const person = await signedIn(cloud, { [other]: 'viewer', [third]: 'member' })
    const at = (project: string, method: string) =>
      person.fetch('/profiles', {
        method,
        headers: { 'x-kernel-project-id': project, 'content-type': 'application/json' },
        ...(method === 'POST' && { body: '{}' }),
      })
    expect((await at(DEFAULT_PROJECT, 'GET')).status).toBe(403)
    expect((await at('unknown', 'GET')).status).toBe(404)
    expect([(await at(other, 'GET')).status, (await at(other, 'POST')).status]).toEqual([200, 403])
    expect([(await at(third, 'GET')).status, (await at(third, 'POST')).status]).toEqual([200, 201])
    expect(((await (await person.fetch('/org/projects')).json()) as { id: string }[]).map(({ id }) => id).toSorted()).toEqual([other, third].toSorted())
    expect((await person.fetch(`/org/projects/${DEFAULT_PROJECT}`)).status).toBe(404)
    expect(await (await person.fetch('/me')).json()).toEqual({
      principal: { type: 'user', id: person.id, name: 'A Person', email: person.email },
      organization: { id: 'defaultorganization00000' },
      role: null,
      projects: [
        { id: other, name: 'roles other', role: 'viewer' },
        { id: third, name: 'roles third', role: 'member' },
      ],
    })
  })

  test('an owner of one project decides in it, and not about the organization', async () => {
    const { id } = (await (await people.owner.send('POST', '/org/api_keys', { name: 'of owner', project_id: DEFAULT_PROJECT })).json()) as { id: string }
    expect(id).toEqual(expect.any(String))
    expect((await people.owner.send('POST', '/org/api_keys', { name: 'for all' })).status).toBe(403)
    expect((await people.owner.send('POST', '/org/projects', { name: 'mine' })).status).toBe(403)
    expect((await people.owner.send('PATCH', '/org/limits', { default_project_max_concurrent_sessions: 1 })).status).toBe(403)
    expect((await people.owner.fetch('/audit-logs/export/destinations')).status).toBe(403)
    expect((await people.owner.fetch('/metrics')).status).toBe(403)
  })

  test('a role in all projects counts in each, and the greater one where there are two', async () => {
    const person = await signedIn(cloud, { '': 'viewer', [DEFAULT_PROJECT]: 'owner' })
    const other = ((await (await cloud.send('POST', '/org/projects', { name: 'roles fourth' })).json()) as { id: string }).id
    expect((await person.fetch('/org/api_keys')).status).toBe(200)
    // The person owns only this project, so keys of other projects are refused.
    expect((await person.send('POST', '/org/api_keys', { name: 'x', project_id: other })).status).toBe(403)
    expect((await person.fetch('/browsers', { headers: { 'x-kernel-project-id': other } })).status).toBe(200)
    expect((await person.fetch('/org/api_keys', { headers: { 'x-kernel-project-id': other } })).status).toBe(403)
  })

  test('a person without a role is nobody', async () => {
    const person = await signedIn(cloud, {})
    expect((await person.fetch('/me')).status).toBe(401)
  })
})

test('the audit log names the person', async () => {
  await people.member.fetch('/profiles')
  const entries = async () =>
    (await (
      await cloud.fetch(
        `/audit-logs?${new URLSearchParams({ start: new Date(Date.now() - 60_000).toISOString(), end: new Date(Date.now() + 60_000).toISOString(), search_user_id: people.member.id, service: 'profiles', method: 'GET' }).toString()}`,
      )
    ).json()) as object[]
  await expect
    .poll(async () => (await entries())[0], { timeout: 5_000 })
    .toMatchObject({ path: '/profiles', auth_strategy: 'dashboard', user_id: people.member.id, email: people.member.email })
})

test('a key that a person makes says who made it', async () => {
  const made = (await (await people.owner.send('POST', '/org/api_keys', { name: 'made', project_id: DEFAULT_PROJECT })).json()) as object
  expect(made).toMatchObject({ created_by: { id: people.owner.id, email: people.owner.email, name: 'A Person' } })
})
