// The type `vault`: secrets of HashiCorp Vault or OpenBao, in a mount of the KV engine, version 2.
import * as z from 'zod'
import { Slots } from '../../../../base/slots.ts'
import { asDomain } from '../match.ts'
import { BackendProblem, type Backend, type Item, type ItemValues } from './backend.ts'
import { parsed, type Answer, type Asker } from './http.ts'
import { readOtp } from './otpauth.ts'
import { Address, jsonToken } from './token.ts'

/** Each secret is read for its URLs, so a list needs as many requests. */
const MOST_SECRETS = 1_000
const MOST_FOLDERS = 500
const MAX_DEPTH = 8
const AT_ONCE = 8

const Path = z
  .string()
  .max(512)
  .refine((path) => !path.split('/').includes('..'), 'must be a path without ".."')
  .transform((path) => path.replace(/^\/+|\/+$/g, ''))
const Secret = z
  .string()
  .min(1)
  .max(8192)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII characters')

const Token = z
  .strictObject({
    address: Address,
    token: Secret.optional(),
    role_id: Secret.optional(),
    secret_id: Secret.optional(),
    approle_mount: Path.default('approle'),
    namespace: Secret.optional(),
    mount: Path.default('secret'),
    /** Only secrets below it are used. */
    prefix: Path.default(''),
  })
  .refine(
    ({ token, role_id, secret_id }) => (token === undefined) === (role_id !== undefined && secret_id !== undefined),
    'must have either a token, or a role_id and a secret_id',
  )

const Login = z.object({ auth: z.object({ client_token: Secret }) })
const Keys = z.object({ data: z.object({ keys: z.array(z.string().min(1).max(1024)) }) })
const Metadata = z.object({ data: z.object({ custom_metadata: z.record(z.string(), z.string()).nullish() }) })
const Data = z.object({ data: z.object({ data: z.record(z.string(), z.unknown()).nullable() }) })

const USER_NAMES = ['username', 'user', 'login']
const URL_NAMES = ['url', 'urls', 'website']
const OTP_NAMES = ['totp', 'otp', 'totp_secret', 'otpauth']

const segments = (path: string): string => path.split('/').filter(Boolean).map(encodeURIComponent).join('/')
const listed = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

export function vaultBackend(text: string, asker: Asker): Backend {
  const { address, mount, prefix, ...login } = jsonToken(Token, text)
  const namespace: Record<string, string> = login.namespace === undefined ? {} : { 'X-Vault-Namespace': login.namespace }
  const url = (path: string) => `${address}/v1/${path}`

  /** Runs `work` with a token, which is revoked if it was made for this. */
  async function withToken<T>(signal: AbortSignal, work: (headers: Record<string, string>) => Promise<T>): Promise<T> {
    if (login.token !== undefined) return work({ ...namespace, 'X-Vault-Token': login.token })
    const body = { role_id: login.role_id, secret_id: login.secret_id }
    const answer = await asker.ask(url(`auth/${segments(login.approle_mount)}/login`), { method: 'POST', headers: namespace, body }, signal)
    const token = accepted(Login, answer, 'the role_id and the secret_id were not accepted').auth.client_token
    const headers = { ...namespace, 'X-Vault-Token': token }
    try {
      return await work(headers)
    } finally {
      // If this fails, the token expires by itself, and the work is done or has its own error. It is revoked even if the caller has disconnected.
      await asker.ask(url('auth/token/revoke-self'), { method: 'POST', headers }, AbortSignal.timeout(REVOKE_MS)).catch(() => {})
    }
  }

  const at = (kind: 'metadata' | 'data', path: string) => url(`${segments(mount)}/${kind}/${segments(path)}`)

  async function keys(folder: string, headers: Record<string, string>, signal: AbortSignal): Promise<string[]> {
    const answer = await asker.ask(`${at('metadata', folder)}?list=true`, { headers }, signal)
    return answer.status === 404 ? [] : accepted(Keys, answer).data.keys
  }

  /** All secrets below the prefix, by their paths in the mount. */
  async function paths(headers: Record<string, string>, signal: AbortSignal): Promise<string[]> {
    const found: string[] = []
    const folders = [{ path: prefix, depth: 0 }]
    for (const { path, depth } of folders) {
      for (const key of await keys(path, headers, signal)) {
        const inside = path === '' ? key : `${path}/${key}`
        if (!key.endsWith('/')) found.push(inside)
        else if (depth < MAX_DEPTH) folders.push({ path: inside.slice(0, -1), depth: depth + 1 })
      }
      if (found.length > MOST_SECRETS || folders.length > MOST_FOLDERS)
        throw new BackendProblem(`there are more than ${MOST_SECRETS} secrets or ${MOST_FOLDERS} folders, the limits; set a prefix`)
    }
    return found.toSorted()
  }

  function itemAt(path: string, urls: string[]): Item {
    const cut = path.lastIndexOf('/')
    const folder = cut === -1 ? mount : `${mount}/${path.slice(0, cut)}`
    return { id: path, title: path.slice(cut + 1), vault: { id: folder, name: folder }, urls }
  }

  /** The URLs in its metadata, and hosts in its path. A policy may forbid reading metadata: then only the path counts. */
  async function urlsOf(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<string[]> {
    const answer = await asker.ask(at('metadata', path), { headers }, signal)
    const metadata = answer.status === 403 || answer.status === 404 ? {} : (accepted(Metadata, answer).data.custom_metadata ?? {})
    return [...URL_NAMES.flatMap((name) => listed(metadata[name] ?? '')), ...hostsIn(path)]
  }

  return {
    assertAllowed: (signal) => asker.assertReachable(address, signal),
    test: (signal) =>
      withToken(signal, async (headers) => {
        const folders = (await keys(prefix, headers, signal))
          .filter((key) => key.endsWith('/'))
          .map((key) => [mount, prefix, key.slice(0, -1)].filter(Boolean).join('/'))
        return [[mount, prefix].filter(Boolean).join('/'), ...folders].map((name) => ({ id: name, name }))
      }),
    listItems: (signal) =>
      withToken(signal, async (headers) => {
        const slots = new Slots(AT_ONCE)
        const found = await paths(headers, signal)
        return Promise.all(found.map(async (path) => itemAt(path, await slots.run(() => urlsOf(path, headers, signal), signal))))
      }),
    resolve: ({ id, urls }, signal) =>
      withToken(signal, async (headers) => {
        const answer = await asker.ask(at('data', id), { headers }, signal)
        if (answer.status === 404) throw new BackendProblem('the secret does not exist any more', { isMissing: true })
        const { data } = accepted(Data, answer).data
        if (data === null) throw new BackendProblem('the last version of the secret was deleted', { isMissing: true })
        return valuesOf(data, urls)
      }),
  }
}

const REVOKE_MS = 3_000

function accepted<T>(schema: z.ZodType<T>, answer: Answer, refusal = 'the token was not accepted, or its policy does not allow this'): T {
  if ([400, 401, 403].includes(answer.status)) throw new BackendProblem(refusal)
  return parsed(schema, answer)
}

/** Hosts in the path of a secret. People name secrets and folders after sites: `web/example.com/kim`, `example.com`, `kim@example.com`. */
const hostsIn = (path: string): string[] =>
  path
    .split('/')
    .map((part) => part.slice(part.lastIndexOf('@') + 1))
    .filter((part) => part.includes('.') && asDomain(part) !== undefined)

function valuesOf(data: Record<string, unknown>, known: readonly string[]): ItemValues {
  const values: Record<string, string> = {}
  const urls = [...known]
  let totp: string | undefined
  for (const [name, value] of Object.entries(data)) {
    if (typeof value !== 'string' && typeof value !== 'number') continue
    const [plain, text] = [name.toLowerCase(), String(value)]
    if (URL_NAMES.includes(plain)) urls.push(...listed(text))
    else if (OTP_NAMES.includes(plain)) totp ??= readOtp(text)
    else if (USER_NAMES.includes(plain)) values.username ??= text
    else values[name] = text
  }
  return { values, totp, urls }
}
