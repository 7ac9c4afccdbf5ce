// One login as its clients see it, with the real service and real Chromium. The clients are the SDKs, the official React component, and a person at the hosted page.
import { createServer } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { driveAsComponent } from '../support/component.ts'
import { forTests } from '../support/for-tests.ts'
import { driveHostedPage } from '../support/hosted-page.ts'
import { shown } from '../support/managed-auth.ts'
import { ownSite } from '../support/own-site.ts'
import { invitePerson, type Person } from '../support/person.ts'
import { runPython } from '../support/python.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'

const ended = new AsyncDisposableStack()
let person: Person
/** The origin of an integrator's site. */
let origin: string
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  person = ended.use(await invitePerson())
  const { port } = ended.use(
    await serveSockets(createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<title>back</title>'))),
  )
  origin = `http://127.0.0.1:${port}`
})
afterAll(() => ended.disposeAsync())

describe.concurrent('a login is driven to its success', () => {
  test('by the Node SDK, which follows its states and submits what it asks', async () => {
    await using site = await ownSite(cloud, 'two-step')
    const { connections } = cloud.client.auth
    await connections.login(site.id)
    const states: string[] = []
    let asked = ''
    for await (const event of await connections.follow(site.id)) {
      if (event.event !== 'managed_auth_state') continue
      states.push(`${event.flow_status} ${event.flow_step}`)
      const names = (event.discovered_fields ?? []).map(({ name }) => name!)
      if (event.flow_step !== 'AWAITING_INPUT' || asked === String(names)) continue
      asked = String(names)
      const { accepted } = await connections.submit(site.id, { fields: Object.fromEntries(names.map((name) => [name, site.page.user[name]!])) })
      expect(accepted).toBe(true)
    }
    expect([states[0], states.at(-1)]).toEqual(['IN_PROGRESS DISCOVERING', 'SUCCESS COMPLETED'])
    expect(states.filter((state) => state.endsWith('AWAITING_INPUT'))).toHaveLength(2)
  })

  test.each(['0.84.0', '0.131.0'])('by the Python SDK %s, which does the same', async (release) => {
    await using site = await ownSite(cloud, 'two-step')
    await runPython(cloud, release, ['logins.py', site.id, JSON.stringify(site.page.user)])
  })

  test('by the requests of the official React component, from a page of another origin', async () => {
    await using site = await ownSite(cloud, 'sms-choice')
    const { handoff_code: code } = await cloud.client.auth.connections.login(site.id)
    const page = await person.newPage()
    await page.goto(origin)
    const { user } = site.page
    const { flowStatus, asked } = await driveAsComponent(page, { url: cloud.url, connectionId: site.id, code: code! }, (state) =>
      state.mfa_options
        ? { mfa_option_id: state.mfa_options[0]!.type }
        : {
            fields: Object.fromEntries(
              state.discovered_fields!.map(({ name }) => [name!, user[name!] && name !== 'code' ? user[name!]! : site.pages.sentCode()!]),
            ),
          },
    )
    expect(flowStatus).toBe('SUCCESS')
    expect(asked.filter((request) => request === 'POST /submit')).toHaveLength(3)
  })

  test.each(['two-step', 'sms-choice', 'push'] as const)('by a person at the hosted page (%s), who is led back', async (name) => {
    await using site = await ownSite(cloud, name)
    const { hosted_url: url } = await cloud.client.auth.connections.login(site.id)
    const page = await person.newPage()
    const back = await driveHostedPage(page, url, `${origin}/done?kept=1`, {
      user: site.page.user,
      code: () => site.pages.sentCode()!,
      onWait: () => site.pages.approve(),
    })
    expect(back).toEqual({ kept: '1', profile_name: site.profile, domain: new URL(site.page.homeUrl).hostname })
    expect(await shown(cloud, site.id)).toMatchObject({ flow_status: 'SUCCESS', status: 'AUTHENTICATED' })
  })
})
