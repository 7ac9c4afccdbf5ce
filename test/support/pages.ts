// Pages for tests, served from this machine's loopback. Sessions reach them as host.cob.internal when the service allows it.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

export interface Pages extends AsyncDisposable {
  /** The address of a file of test/pages as a session sees it. */
  url(name: string): string
  /** The same for this machine's own programs. */
  local(name: string): string
  port: number
}

export async function servePages(): Promise<Pages> {
  const server = createServer((request, response) => {
    const name = new URL(request.url ?? '/', 'http://localhost').pathname.slice(1)
    try {
      const body = /^[\w-]+\.html$/.test(name) ? readFileSync(join(PACKAGE_DIR, 'test/pages', name)) : `<!doctype html><title>${name}</title><h1>${name}</h1>`
      response.setHeader('content-type', 'text/html; charset=utf-8').end(body)
    } catch {
      response.writeHead(404).end()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: (name) => `http://host.cob.internal:${port}/${name}`,
    local: (name) => `http://127.0.0.1:${port}/${name}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
