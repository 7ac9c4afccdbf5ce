// Which tools of the agent are public, and how a public call finds its agent.
import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { contractsOf } from '../../../agent/contract.ts'
import { under, type Target } from '../../../http/forward.ts'
import { splitUrl } from '../../../http/body.ts'
import { routeId } from '../../../http/mount.ts'
import { sessionOf, type Contract, type Principal } from '../../../http/route.ts'
import type { Browsers } from './browsers.ts'
import { SESSION_PATH } from './contract.ts'

/** Time that the hop to the agent may add to a call's own limit. */
const HOP_MS = 5_000

/** Every agent tool that callers may use, below its browser, by id or name. */
export const instanceApis: Contract = Object.assign(
  {},
  ...contractsOf(({ isForClients }) => isForClients === true).map((tool) =>
    under('/browsers/{id}', tool, (call) => ({
      params: z.strictObject({ id: z.string(), ...(call.params as z.ZodObject).shape }),
      faults: [...new Set(['not_found', 'conflict', 'bad_gateway', 'unavailable', ...call.faults] as const)],
      access: 'session',
      deadlineMs: call.deadlineMs + HOP_MS,
    })),
  ),
) as Contract

/** A contract of calls below `/browsers/{id}`, and once more below {@link SESSION_PATH}. */
export const atSession = <C extends Contract>(contract: C): C =>
  Object.fromEntries(Object.entries(contract).map(([name, call]) => [name, { ...call, path: call.path.replace(/^\/browsers/, SESSION_PATH) }])) as C

/** Turns `/browsers/x/computer/screenshot?jwt=t&a=1` into `/computer/screenshot?a=1`. */
export function innerPath(url: string): string {
  const { path, query } = splitUrl(url)
  const rest = new URLSearchParams(query)
  rest.delete('jwt')
  return (
    path
      .replace(/^https?:\/\/[^/]*/i, '')
      .replaceAll(/\/+/g, '/')
      .replace(/^\/(browsers|browser\/session)\/[^/]+/, '') + (rest.size > 0 ? `?${rest.toString()}` : '')
  )
}

/** Calls that only watch: they neither keep a session from timing out nor keep it awake. */
const ONLOOKERS = new Set(Object.values(instanceApis).flatMap(({ id, looksOn }) => (looksOn ? [id] : [])))

/** Finds the agent of a forwarded call. */
export const reacher =
  (browsers: Browsers) =>
  async (request: FastifyRequest, principal: Principal): Promise<Target> => {
    // Telemetry contains no values of a login, so it is open there.
    const isOnlooker = ONLOOKERS.has(routeId(request))
    const called = sessionOf(principal, (request.params as { id: string }).id)
    const reached = await browsers.reach(principal.project, called, { isForLogins: isOnlooker })
    if (!isOnlooker) return reached
    reached.release()
    return { ...reached, release: () => {} }
  }
