// What a login leaves in the browser: cookies, without their values, and storage.
import { createHmac, randomBytes } from 'node:crypto'
import type { z } from 'zod'
import type { Cdp } from '../chromium/cdp.ts'
import type { login } from './contract.ts'
import { isAllowedHost } from './hosts.ts'
import type { Tab } from './tab.ts'

type Marks = z.output<(typeof login.readLoginMarks.reply)['schema']>

/** A browser has at most some thousand cookies, of 4 kB each. */
const ANSWER_MS = 10_000
const MAX_COOKIES = 500
const key = randomBytes(32)

/** A cookie of a domain goes to the hosts below it too. */
const isOf = (domain: string, hosts: readonly string[]): boolean => {
  const name = domain.replace(/^\./, '').toLowerCase()
  return isAllowedHost(name, hosts) || (domain.startsWith('.') && hosts.some((host) => host.replace(/^\*\./, '').endsWith(`.${name}`)))
}

/** The cookies of hosts, and those of the frames of `tab` on such hosts whose storage holds something. */
export async function readMarks(cdp: Cdp, tab: Tab | undefined, hosts: readonly string[]): Promise<Marks> {
  const { cookies } = await cdp.send('Storage.getCookies', {}, { limitMs: ANSWER_MS })
  const digest = (value: string) => createHmac('sha256', key).update(value).digest('hex').slice(0, 32)
  const mine = cookies
    .filter(({ domain }) => isOf(domain, hosts))
    .slice(0, MAX_COOKIES)
    .map(({ name, domain, path, value, session, httpOnly }) => ({
      name: name.slice(0, 256).toWellFormed(),
      domain: domain.slice(0, 253),
      path: path.slice(0, 256).toWellFormed(),
      digest: digest(value),
      is_session: session,
      http_only: httpOnly,
    }))
  return { cookies: mine, stored: tab ? await storedIn(tab, hosts) : [] }
}

async function storedIn(tab: Tab, hosts: readonly string[]): Promise<string[]> {
  const frames = (await tab.frames()).filter(({ url }) => URL.canParse(url) && isAllowedHost(new URL(url).hostname, hosts))
  const asked = frames.map(async (frame) => ((await (await tab.world(frame)).call('stored', [])) === true ? [new URL(frame.url).hostname.slice(0, 253)] : []))
  // A frame that hangs, or goes, is not known to have any.
  const received = await Promise.allSettled(asked)
  return [...new Set(received.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])))].slice(0, 200)
}
