// Signed-in people, without an identity provider.
import { createHash, randomBytes } from 'node:crypto'
import { newId } from '../../src/base/ids.ts'
import type { Role } from '../../src/http/route.ts'
import type { FastCloud } from './fast-cloud.ts'

export interface SignedIn {
  id: string
  email: string
  cookie: string
  /** Sends a request as the dashboard does. */
  fetch(path: string, init?: RequestInit): Promise<Response>
  send(method: string, path: string, body?: unknown): Promise<Response>
}

/** The header of the dashboard's requests. */
export const OURS = { 'x-cob-dashboard': '1' }

/** Sends requests with a cookie, as the dashboard does. */
export function asPage(url: string, cookie: string): Pick<SignedIn, 'fetch' | 'send'> {
  const asked: SignedIn['fetch'] = (path, init = {}) =>
    fetch(url + path, { ...init, headers: { cookie, ...OURS, ...(init.headers as Record<string, string>) } })
  return {
    fetch: asked,
    send: (method, path, body) =>
      asked(path, { method, ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }) }),
  }
}

/** Creates a signed-in person with these roles (by project; '' is all projects). */
export async function signedIn({ url, query }: Pick<FastCloud, 'url' | 'query'>, roles: Record<string, Role>): Promise<SignedIn> {
  const [id, token] = [newId(), randomBytes(32).toString('hex')]
  const email = `${id}@people.test`
  await query(`insert into people (id, issuer, subject, email, name, signed_in_at) values ($1, 'https://idp.test', $1, $2, 'A Person', now())`, [id, email])
  for (const [project, role] of Object.entries(roles))
    await query('insert into memberships (person_id, project_id, role) values ($1, $2, $3)', [id, project || null, role])
  await query(`insert into web_sessions (id, hash, person_id, expires_at) values ($1, $2, $3, now() + interval '1 hour')`, [
    newId(),
    createHash('sha256').update(token).digest(),
    id,
  ])
  const cookie = `cob_session=${token}`
  return { id, email, cookie, ...asPage(url, cookie) }
}
