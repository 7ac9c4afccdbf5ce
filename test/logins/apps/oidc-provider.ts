// oidc-provider from npm with the form of its development mode, and a small client: a site that sends its users there to log in.
import { createHash, randomBytes } from 'node:crypto'
import { createServer, request, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { serveSockets } from '../../support/upstreams.ts'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'

/** The part of the package's types that we use; the package is not one of our dependencies. */
interface Context {
  method: string
  path: string
  body: unknown
  req: IncomingMessage & { body?: string }
}
interface Provider {
  proxy: boolean
  use(middleware: (ctx: Context, next: () => Promise<void>) => Promise<void>): void
  callback(): RequestListener
}
type ProviderClass = new (issuer: string, configuration: object) => Provider

interface Layout {
  name: string
  /** The host of the client, and below it the host of the provider. */
  site: string
  provider: string
  /** Whether the client's start page redirects to the provider at once, without a button. */
  isDirect: boolean
}

/** A site whose login page is the provider's, on a sub-domain of the same domain. */
export const startOidcProvider = (): Promise<LoginApp> =>
  startOidc({ name: 'oidc-provider', site: 'portal.bare-form.test', provider: 'login.bare-form.test', isDirect: true })

/** A shop with a button "Log in with Identity" that leads to another domain. */
export const startOidcSso = (): Promise<LoginApp> => startOidc({ name: 'oidc-sso', site: 'shop.test', provider: 'identity.test', isDirect: false })

async function startOidc({ name, site, provider: providerHost, isDirect }: Layout): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const user = { username: 'ann.example', password: randomPassword() }
  const client = { client_id: 'site', client_secret: randomBytes(16).toString('hex') }

  const records = new Map<string, unknown>()
  const loaded = (await import(pathToFileURL(join(LOGINS_DIR, 'oidc-provider/node_modules/oidc-provider/lib/index.js')).href)) as { default: ProviderClass }
  const provider = new loaded.default(`http://${providerHost}`, {
    adapter: adapterOver(records),
    clients: [{ ...client, redirect_uris: [`http://${site}/callback`], grant_types: ['authorization_code'], response_types: ['code'] }],
    cookies: { keys: [randomBytes(16).toString('hex')] },
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
  })
  // The provider's form accepts every password. This middleware answers a wrong one with its own page.
  provider.use(async (ctx, next) => {
    if (ctx.method !== 'POST' || !ctx.path.startsWith('/interaction/')) return next()
    const body = await text(ctx.req)
    ctx.req.body = body
    const given = new URLSearchParams(body)
    if (given.get('prompt') !== 'login' || (given.get('login') === user.username && given.get('password') === user.password)) return next()
    ctx.method = 'GET'
    await next()
    ctx.body = String(ctx.body).replace('<form', '<p>Invalid login or password</p><form')
  })
  const providerServer = scope.use(await serveSockets(createServer(provider.callback())))

  const sessions = new Map<string, { verifier: string; state: string; sub?: string }>()
  const providerPort = providerServer.port
  const answer = async (incoming: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const url = new URL(incoming.url!, `http://${site}`)
    const id = /(?:^|; )site_session=(\w+)/.exec(incoming.headers.cookie ?? '')?.[1]
    const session = id === undefined ? undefined : sessions.get(id)
    const page = (html: string) => reply.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html><title>The shop</title>${html}`)
    const to = (location: string, headers: Record<string, string> = {}) => reply.writeHead(303, { location, ...headers }).end()
    if (url.pathname === '/logout') {
      if (id !== undefined) sessions.delete(id)
      return void to('/')
    }
    if (url.pathname === '/callback') {
      if (!session || session.state !== url.searchParams.get('state')) return void page('<h1>This log-in has expired</h1><a href="/login">Try again</a>')
      const code = url.searchParams.get('code')
      if (code === null) return void page('<h1>You were not logged in</h1>')
      const form = new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: `http://${site}/callback`,
        code_verifier: session.verifier,
        ...client,
      })
      const tokens = (await post(providerPort, providerHost, '/token', form)) as { id_token?: string }
      if (!tokens.id_token) return void page('<h1>You were not logged in</h1>')
      session.sub = (JSON.parse(Buffer.from(tokens.id_token.split('.')[1]!, 'base64url').toString()) as { sub: string }).sub
      return void to('/')
    }
    if (session?.sub !== undefined) return void page(`<h1>Welcome, ${session.sub}</h1><p>Your orders: none</p><a href="/logout">Log out</a>`)
    if (url.pathname === '/login' || isDirect) {
      const made = { verifier: randomBytes(32).toString('base64url'), state: randomBytes(8).toString('hex') }
      const newId = randomBytes(16).toString('hex')
      sessions.set(newId, made)
      const query = new URLSearchParams({
        client_id: client.client_id,
        response_type: 'code',
        scope: 'openid',
        redirect_uri: `http://${site}/callback`,
        state: made.state,
        code_challenge: createHash('sha256').update(made.verifier).digest('base64url'),
        code_challenge_method: 'S256',
      })
      return void to(`http://${providerHost}/auth?${query.toString()}`, { 'set-cookie': `site_session=${newId}; Path=/; HttpOnly; Max-Age=86400` })
    }
    page('<h1>The shop</h1><p>Nothing here is for you yet.</p><a class="button" href="/login">Log in with Identity</a>')
  }
  const siteServer = scope.use(await serveSockets(createServer((incoming, reply) => void answer(incoming, reply).catch(() => reply.destroy()))))

  return await withFront({ [site]: siteServer.port, [providerHost]: providerServer.port }, scope, {
    name,
    loginUrl: isDirect ? `http://${site}/login` : undefined,
    homeUrl: `http://${site}/`,
    user,
    async endSessions() {
      records.clear()
      sessions.clear()
    },
    proof: { url: `http://${site}/`, text: /Welcome, ann\.example/ },
  })
}

/** Sends a request from the site's server to the provider's server. The provider's name does not resolve on this machine, so the header carries it. */
async function post(port: number, host: string, path: string, form: URLSearchParams): Promise<unknown> {
  const body = form.toString()
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const headers = { host, 'content-type': 'application/x-www-form-urlencoded', 'content-length': Buffer.byteLength(body) }
  request({ host: '127.0.0.1', port, path, method: 'POST', agent: false, headers, timeout: 10_000 }).on('response', resolve).on('error', reject).end(body)
  return JSON.parse((await buffer(await promise)).toString())
}

/** Implements the package's storage interface over a map that endSessions can empty. */
function adapterOver(records: Map<string, unknown>) {
  return class {
    readonly model: string
    constructor(model: string) {
      this.model = model
    }
    #key = (id: string) => `${this.model}:${id}`
    async upsert(id: string, payload: { uid?: string }): Promise<void> {
      records.set(this.#key(id), payload)
      if (payload.uid !== undefined) records.set(`uid:${this.model}:${payload.uid}`, id)
    }
    async find(id: string): Promise<unknown> {
      return records.get(this.#key(id))
    }
    async findByUid(uid: string): Promise<unknown> {
      const id = records.get(`uid:${this.model}:${uid}`)
      return typeof id === 'string' ? this.find(id) : undefined
    }
    async consume(id: string): Promise<void> {
      const payload = records.get(this.#key(id)) as { consumed?: number } | undefined
      if (payload) payload.consumed = Math.floor(Date.now() / 1000)
    }
    async destroy(id: string): Promise<void> {
      records.delete(this.#key(id))
    }
    async revokeByGrantId(grantId: string): Promise<void> {
      for (const [key, payload] of records) if ((payload as { grantId?: string }).grantId === grantId) records.delete(key)
    }
  }
}
