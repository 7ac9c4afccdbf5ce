// Serves login pages that tests write, on several hosts of this machine, and makes the calls by which a service logs in through an agent.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { login, type Action, type Control, type PageModel } from '../../src/agent/login/contract.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'
import { call } from '../../src/http/client.ts'
import { serveSockets } from './upstreams.ts'

/** The HTML of a page, or a function that answers its requests. */
export type Made = string | ((request: IncomingMessage, response: ServerResponse, host: string) => void)

export interface LoginSite extends AsyncDisposable {
  /** The address of a page on this machine's first host, or on another one. */
  url(name: string, host?: string): string
  /** The requests since the start: the host, the path with its query, and the body. */
  log: { host: string; path: string; body: string }[]
  port: number
}

/** The name of the service's machine inside sessions. A name below it is another site. */
export const OWN = 'host.cob.internal'

export async function serveLogins(pages: Record<string, Made>): Promise<LoginSite> {
  const log: LoginSite['log'] = []
  const server = createServer((request, response) => {
    const host = request.headers.host ?? ''
    const path = request.url ?? '/'
    void text(request).then((body) => log.push({ host, path, body }))
    const page = pages[new URL(path, 'http://localhost').pathname.slice(1)]
    if (page === undefined) return response.writeHead(404).end()
    if (typeof page === 'function') return page(request, response, host)
    response.setHeader('content-type', 'text/html; charset=utf-8').end(page.replaceAll('PORT', String(port)))
  })
  const served = await serveSockets(server)
  const { port } = served
  return {
    ...served,
    log,
    url: (name, host = OWN) => `http://${host}:${port}/${name}`,
  }
}

/** The login calls of one agent. */
export function loginsOf(agent: Endpoint) {
  const options = { signal: new AbortController().signal }
  return {
    open: (url: string, new_tab = false) => call(agent, login.openLoginPage, { body: { url, new_tab } }, options),
    read: () => call(agent, login.readLoginPage, {}, options),
    act: (actions: Action[], hosts: string[] = [OWN]) => call(agent, login.actOnLoginPage, { body: { actions, hosts } }, options),
    settle: (limit_ms = 10_000) => call(agent, login.settleLoginPage, { body: { limit_ms } }, options),
    marks: (hosts: string[]) => call(agent, login.readLoginMarks, { body: { hosts } }, options),
    end: () => call(agent, login.endLogin, {}, options),
  }
}

/** The control with this name or id. */
export function controlIn(model: PageModel, name: string): Control {
  const found = model.controls.find((control) => control.name === name || control.id === name)
  if (!found) throw new Error(`no control "${name}" among ${model.controls.map((control) => control.name || control.id || control.label).join(', ')}`)
  return found
}
