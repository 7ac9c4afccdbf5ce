// The browser's cookies after a login, without their values.
import { createHmac, randomBytes } from 'node:crypto'
import type * as z from 'zod'
import type { Cdp } from '../chromium/cdp.ts'
import type { login } from './contract.ts'
import { isAllowedHost } from './hosts.ts'

export type Marks = z.output<(typeof login.readLoginMarks.reply)['schema']>

/** A browser has at most some thousand cookies, of 4 kB each. */
const ANSWER_MS = 10_000
const MAX_COOKIES = 500
const key = randomBytes(32)

/** A cookie of a domain is also sent to the hosts below it. */
const isOf = (domain: string, hosts: readonly string[]): boolean => {
  const name = domain.replace(/^\./, '').toLowerCase()
  return isAllowedHost(name, hosts) || (domain.startsWith('.') && hosts.some((host) => host.replace(/^\*\./, '').endsWith(`.${name}`)))
}

/** The cookies of hosts. */
export async function readMarks(cdp: Cdp, hosts: readonly string[]): Promise<Marks> {
  const { cookies } = await cdp.send('Storage.getCookies', {}, { limitMs: ANSWER_MS })
  const digest = (value: string) => createHmac('sha256', key).update(value).digest('hex').slice(0, 32)
  const mine = cookies.filter(({ domain }) => isOf(domain, hosts)).slice(0, MAX_COOKIES)
  return { cookies: mine.map(({ name, domain, value }) => ({ name: name.slice(0, 256).toWellFormed(), domain: domain.slice(0, 253), digest: digest(value) })) }
}
