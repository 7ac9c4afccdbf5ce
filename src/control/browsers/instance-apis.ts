// Which tools of the agent are public, and how a public call finds its agent.
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { computer } from '../../agent/computer/contract.ts'
import { curl } from '../../agent/curl/contract.ts'
import { filesystem } from '../../agent/fs/contract.ts'
import { logs } from '../../agent/logs/contract.ts'
import { playwright } from '../../agent/playwright/contract.ts'
import { processes } from '../../agent/process/contract.ts'
import { under, type Target } from '../../http/forward.ts'
import { splitUrl } from '../../http/body.ts'
import { bearer, type Authenticate } from '../../http/mount.ts'
import type { Contract } from '../../http/route.ts'
import type { Browsers } from './browsers.ts'
import type { SessionTokens } from './tokens.ts'

/** Time the hop to the agent may add to a call's own limit. */
const HOP_MS = 5_000

/** Every agent tool that callers may use, below the browser it belongs to. A new tool is one word here. */
export const instanceApis: Contract = Object.assign(
  {},
  ...[computer, curl, playwright, filesystem, processes, logs].map((tool) =>
    under('/browsers/{id}', tool, (route) => ({
      params: z.strictObject({ id: z.string(), ...(route.params as z.ZodObject).shape }),
      faults: ['not_found', 'unavailable', ...route.faults],
      access: 'session',
      deadlineMs: route.deadlineMs + HOP_MS,
    })),
  ),
) as Contract

/** `/browsers/x/computer/screenshot?jwt=t&a=1` to `/computer/screenshot?a=1`. */
export function innerPath(url: string): string {
  const { path, query } = splitUrl(url)
  const rest = new URLSearchParams(query)
  rest.delete('jwt')
  return (
    path
      .replace(/^https?:\/\/[^/]*/i, '')
      .replaceAll(/\/+/g, '/')
      .replace(/^\/browsers\/[^/]+/, '') + (rest.size > 0 ? `?${rest.toString()}` : '')
  )
}

/** Finds the agent of a forwarded call: a key opens every session, a session's token (`?jwt=`) only its own. */
export function reacher(browsers: Browsers, tokens: SessionTokens, authenticate: Authenticate) {
  return async (request: FastifyRequest, _route: unknown, signal: AbortSignal): Promise<Target> => {
    const { id } = request.params as { id: string }
    const { jwt } = request.query as { jwt?: unknown }
    if (jwt === undefined) await authenticate(bearer(request), signal)
    else await tokens.check(jwt, id)
    return browsers.reach(id)
  }
}
