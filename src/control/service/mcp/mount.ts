// POST /mcp: checks the caller and the page's origin; the SDK does the rest. No state is kept between requests, so that every replica can answer each.
import type { McpHttpHandler } from '@modelcontextprotocol/server'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Readable } from 'node:stream'
import type { SearchDocs } from './tools/docs.ts'
import type { McpToolset } from '../../../base/mcp-toolsets.ts'
import { hasMoreValues, readBody } from '../../../http/body.ts'
import { Fault, fault } from '../../../http/fault.ts'
import { register, type MountContext } from '../../../http/mount.ts'
import { apiFor, type Api } from './api.ts'
import { mcp } from './contract.ts'
import { assertOwnOrigin } from './origin.ts'
import { resourcesFor } from './resources.ts'
import { mcpServer } from './server.ts'
import { toolsFor } from './tools.ts'

interface McpSettings {
  searchDocs: SearchDocs
  /** Families of tools that are not listed. */
  hidden: readonly McpToolset[]
  /** The origin that clients use, if it is set. */
  publicUrl: string | undefined
}

/** As for other bodies: JSON values take many times their bytes in memory. */
const MAX_VALUES = 600_000
/** Shorter than the times after which proxies close a silent answer. */
const KEEP_ALIVE_MS = 15_000

/** Headers of the protocol. The SDK gets no others: it does not need the credential. */
const isOfProtocol = (name: string): boolean => name.startsWith('mcp-') || name === 'accept' || name === 'content-type'

type UntilSignal = (signal: AbortSignal) => Api

export function mountMcp(context: MountContext, { searchDocs, hidden, publicUrl }: McpSettings): void {
  const tools = toolsFor(searchDocs, hidden)
  const resources = resourcesFor(hidden)
  let made: Promise<McpHttpHandler> | undefined
  /** Created at the first request: loading the SDK takes some 50 ms. */
  const handler = () =>
    (made ??= import('@modelcontextprotocol/server').then((sdk) =>
      sdk.createMcpHandler(({ authInfo }) => mcpServer(sdk, { tools, resources, log: context.log, apiUntil: authInfo!.extra!.apiUntil as UntilSignal }), {
        responseMode: 'sse',
        keepAliveMs: KEEP_ALIVE_MS,
        maxRequestBodySize: mcp.mcp.maxBodyBytes,
        // There are no notices to send: tools and prompts change only with a restart of the service.
        maxSubscriptions: 0,
        onerror: (error) => context.log.debug({ err: error }, 'an MCP message was refused'),
      }),
    ))
  const guarded = { ...context, authenticate: challenging(context, publicUrl) }
  register(guarded, mcp.mcp, async (request, reply, signal) => {
    const body = await readBody(request.raw, mcp.mcp.maxBodyBytes, signal)
    if (hasMoreValues(body, MAX_VALUES)) throw fault.field('body', `has more than ${MAX_VALUES} values`)
    // The revisions since 2025-06-18 have no batches, and a batch would run any number of calls at once.
    if (/^\s*\[/.test(body.toString('utf8', 0, 1024))) throw fault.field('body', 'must be one JSON-RPC message; batches are not taken')
    const headers = Object.entries(request.headers).filter(([name, value]) => isOfProtocol(name) && typeof value === 'string') as [string, string][]
    const apiUntil: UntilSignal = (until) => apiFor(context.app.server, request, AbortSignal.any([signal, until]))
    const message = new Request(`${context.origin(request, undefined)}/mcp`, { method: 'POST', headers, body: body.toString(), signal: left(reply) })
    const answer = await (await handler()).fetch(message, { authInfo: { token: '', clientId: '', scopes: [], extra: { apiUntil } } })
    void reply.code(answer.status).headers({ ...Object.fromEntries(answer.headers), 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
    return reply.send(answer.body ? Readable.fromWeb(answer.body as never) : undefined)
  })
}

/**
 * Aborts when the client has disconnected. When its key is deleted, calls end by the request's own signal, with an error that is still sent: an aborted
 * exchange would end without one, and clients would wait for it.
 */
function left({ raw }: FastifyReply): AbortSignal {
  const leaving = new AbortController()
  raw.once('close', () => leaving.abort(fault.clientClosed()))
  if (raw.closed) leaving.abort(fault.clientClosed())
  return leaving.signal
}

/** Refuses pages of other origins before it checks the credential, and tells callers without one where to get it (RFC 9728). */
const challenging =
  (context: MountContext, publicUrl: string | undefined): MountContext['authenticate'] =>
  async (request, ...rest) => {
    assertOwnOrigin(request.headers.origin, context.origin(request, undefined), publicUrl !== undefined)
    try {
      return await context.authenticate(request, ...rest)
    } catch (error) {
      throw error instanceof Fault && error.code === 'unauthorized' ? challenge(context, request, error) : error
    }
  }

const challenge = (context: MountContext, request: FastifyRequest, { message }: Fault): Fault =>
  new Fault('unauthorized', message, {
    headers: { 'www-authenticate': `Bearer resource_metadata="${context.origin(request, undefined)}/.well-known/oauth-protected-resource"` },
  })
