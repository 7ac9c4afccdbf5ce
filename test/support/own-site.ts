// One of the test pages (test/logins) as a site for one test: its own servers, its own proxy, and a connection that is deleted with it.
import { startOwnPages, type OwnPage, type OwnPages } from '../logins/apps/own-pages.ts'
import type { PageName } from '../logins/apps/own-pages/pages.ts'
import { startLoginNet } from '../logins/net.ts'
import type { Cloud } from './cloud.ts'
import { personOf, type Person } from './managed-auth.ts'

export interface OwnSite extends AsyncDisposable {
  id: string
  profile: string
  page: OwnPage
  pages: OwnPages
  /** The site's user, who reads the codes that the site sends. */
  person: Person
  /** The bodies that the site received, on all hosts. */
  sent(): string[]
  /** Stores the user's values as a credential; `other` replaces some of them. */
  store(other?: Record<string, string>, totpSecret?: string): Promise<string>
  /** Whether the site shows a session with the profile as logged in. */
  isLoggedIn(): Promise<boolean>
}

let made = 0

/** A connection at one of the pages. Disposing deletes it with its profile, its credentials and its proxy. */
export async function ownSite(cloud: Cloud, name: PageName, more: (site: Pick<OwnSite, 'store'>) => object | Promise<object> = () => ({})): Promise<OwnSite> {
  await using scope = new AsyncDisposableStack()
  const { client } = cloud
  const pages = scope.use(await startOwnPages())
  const net = scope.use(await startLoginNet([pages]))
  const page = pages.page(name)
  const profile = `own-${name}-${++made}-${process.pid}`
  const proxy = (await client.proxies.create({ type: 'custom', protocol: 'http', config: { host: 'host.cob.internal', port: net.port } })).id!
  scope.defer(() => client.proxies.delete(proxy))
  const host = new URL(page.homeUrl).hostname
  const store: OwnSite['store'] = async (other = {}, totpSecret) => {
    const { code: _, email: _email, ...values } = page.user
    const { id, name: stored } = await client.credentials.create({
      name: `${profile}-${++made}`,
      domain: host,
      values: { ...values, ...other },
      ...(totpSecret !== undefined && { totp_secret: totpSecret }),
    })
    scope.defer(() => client.credentials.delete(id))
    return stored
  }
  const { id } = await client.auth.connections.create({
    domain: host,
    profile_name: profile,
    // The pages have no TLS, and a login without a login_url would start with https.
    login_url: page.loginUrl ?? page.homeUrl,
    proxy: { id: proxy },
    save_credentials: false,
    ...(await more({ store })),
  })
  scope.defer(() => client.profiles.delete(profile))
  // A test may have deleted it already.
  scope.defer(async () => {
    const { status } = await cloud.fetch(`/auth/connections/${id}`, { method: 'DELETE' })
    if (status !== 204 && status !== 404) throw new Error(`the deletion of a connection was answered ${status}`)
  })
  const owner = scope.move()
  return {
    id,
    profile,
    page,
    pages,
    person: personOf(page.user, () => pages.sentCode() ?? page.user.code!),
    sent: () => pages.requests().map(({ body }) => body),
    store,
    async isLoggedIn() {
      const { session_id: session } = await client.browsers.create({ profile: { name: profile }, proxy_id: proxy, headless: true })
      try {
        const { result } = await client.browsers.playwright.execute(session, {
          code: `await page.goto(${JSON.stringify(page.proof.url)}); return page.locator('body').innerText()`,
          timeout_sec: 30,
        })
        return page.proof.text.test(String(result))
      } finally {
        await cloud.remove(session)
      }
    },
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
