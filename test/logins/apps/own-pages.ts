// Test pages for what no application here has: waiting for a phone, captchas, passkeys, account choosers, phishing, split code boxes, and forms in unusual places.
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { serveSockets } from '../../support/upstreams.ts'
import { randomPassword, startFront, type LoginApp } from '../app.ts'
import { pageOf, PAGES, type PageName, type Reply, type Visit } from './own-pages/pages.ts'

/** Every page's own host is `<name>.own-pages.test`. */
const DOMAIN = 'own-pages.test'
/** Hosts outside the domain of the pages: one for frames, one for a captcha's frame, and one that collects passwords. */
const ELSEWHERE = { frame: 'forms.frame-host.test', captcha: 'www.recaptcha.test', phishing: 'own-pages-login.evil.test' }

/** One of the pages, with the interface of a login application. */
export type OwnPage = Omit<LoginApp, 'hosts' | 'port' | typeof Symbol.asyncDispose>

export interface OwnPages extends AsyncDisposable {
  port: number
  hosts: string[]
  page(name: PageName): OwnPage
  /** Approves the login on the page `push`, as a person does on a phone. */
  approve(): void
  /** The newest code that a page has sent by mail or SMS. */
  sentCode(): string | undefined
  /** Makes all pages answer with this status; undefined ends that. */
  breakWith(status: number | undefined): void
  /** The requests that the phishing site has received. */
  stolen(): { path: string; body: string }[]
  requests: LoginApp['requests']
}

export async function startOwnPages(): Promise<OwnPages> {
  await using scope = new AsyncDisposableStack()
  const user = { username: 'ann', email: 'ann@example.test', password: randomPassword(), code: String(Math.floor(100_000 + Math.random() * 900_000)) }
  const sessions = new Map<string, Visit['session']>()
  const trusted = new Set<string>()
  let isApproved = false
  let sent: string | undefined
  let broken: number | undefined

  const answer = async (incoming: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const host = incoming.headers.host!.replace(/:\d+$/, '')
    const url = new URL(incoming.url!, `http://${host}`)
    const form = new URLSearchParams(incoming.method === 'POST' ? await text(incoming) : '')
    if (broken !== undefined) return void reply.writeHead(broken, { 'content-type': 'text/html' }).end('<h1>Something is broken</h1>')
    const name = (
      host === ELSEWHERE.frame
        ? 'frame-form'
        : host === ELSEWHERE.captcha
          ? 'captcha-frame'
          : host === ELSEWHERE.phishing
            ? 'phishing-form'
            : host.replace(`.${DOMAIN}`, '')
    ) as PageName
    const cookies = new Map((incoming.headers.cookie ?? '').split('; ').map((pair) => pair.split('=') as [string, string]))
    const key = cookies.get('own_session')
    const session = (key !== undefined && sessions.get(key)) || { steps: new Set<string>() }
    const device = cookies.get('own_device')
    const visit: Visit = {
      name,
      method: incoming.method!,
      url,
      form,
      user,
      session,
      isApproved: () => isApproved,
      isTrusted: device !== undefined && trusted.has(device),
      authorization: incoming.headers.authorization,
      elsewhere: ELSEWHERE,
      send: () => (sent = String(Math.floor(100_000 + Math.random() * 900_000))),
      sent: () => sent,
    }
    const result: Reply = pageOf(visit)
    const headers: Record<string, string | string[]> = { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store', ...result.headers }
    const set: string[] = []
    if (result.keeps) {
      const made = key !== undefined && sessions.has(key) ? key : randomBytes(16).toString('hex')
      sessions.set(made, session)
      set.push(`own_session=${made}; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400`)
    }
    if (result.trustsDevice) {
      const made = randomBytes(16).toString('hex')
      trusted.add(made)
      set.push(`own_device=${made}; Path=/; HttpOnly; Max-Age=8640000`)
    }
    if (set.length > 0) headers['set-cookie'] = set
    reply
      .writeHead(result.status ?? (result.location === undefined ? 200 : 303), {
        ...headers,
        ...(result.location !== undefined && { location: result.location }),
      })
      .end(result.html ?? '')
  }
  const server = scope.use(await serveSockets(createServer((incoming, reply) => void answer(incoming, reply).catch(() => reply.destroy()))))
  const hosts = [...PAGES.map((name) => `${name}.${DOMAIN}`), ...Object.values(ELSEWHERE)]
  const front = scope.use(await startFront(Object.fromEntries(hosts.map((host) => [host, server.port]))))
  const owner = scope.move()
  return {
    port: front.port,
    hosts,
    requests: front.requests,
    page: (name) => {
      const at = `http://${name}.${DOMAIN}`
      const hasNoLoginUrl = name === 'dialog' || name === 'cookie-banner'
      return {
        name: `own:${name}`,
        loginUrl: hasNoLoginUrl ? undefined : `${at}/login`,
        homeUrl: `${at}/`,
        user,
        async endSessions() {
          sessions.clear()
        },
        proof: { url: `${at}/`, text: /Welcome back, ann/ },
        requests: () => front.requests().filter(({ host }) => host === `${name}.${DOMAIN}`),
      }
    },
    approve: () => (isApproved = true),
    sentCode: () => sent,
    breakWith: (status) => (broken = status),
    stolen: () => front.requests().filter(({ host, method }) => host === ELSEWHERE.phishing && method === 'POST'),
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
