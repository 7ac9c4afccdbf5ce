// Serves test pages on this machine's loopback. Sessions reach them as host.cob.internal when the service allows it.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join } from 'node:path'
import type { Page, Response } from 'playwright-core'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { serveSockets } from './upstreams.ts'

export interface Pages extends AsyncDisposable {
  /** The address of a file in test/pages, for a session. */
  url(name: string): string
  /** The address of the same file for programs of this machine. */
  local(name: string): string
  /** How many times a page has been requested. */
  hits(name: string): number
  port: number
}

/** Files of npm packages, as /npm/<package>/<file>, so that pages need no internet. No part may begin with a dot. */
const NPM_FILE = /^npm((?:\/@?\w[\w.-]*){2,})$/
const TYPES: Record<string, string> = {
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

export async function servePages(): Promise<Pages> {
  const hits = new Map<string, number>()
  const server = createServer((request, response) => {
    const name = new URL(request.url ?? '/', 'http://localhost').pathname.slice(1)
    hits.set(name, (hits.get(name) ?? 0) + 1)
    try {
      const { type, body } = answer(name)
      response.setHeader('content-type', type).end(body)
    } catch {
      response.writeHead(404).end()
    }
  })
  const served = await serveSockets(server)
  const { port } = served
  return {
    ...served,
    url: (name) => `http://host.cob.internal:${port}/${name}`,
    local: (name) => `http://127.0.0.1:${port}/${name}`,
    hits: (name) => hits.get(name) ?? 0,
  }
}

/** A file of a package, a file of test/pages, or a page that shows its own name. @throws when there is no such file */
function answer(name: string): { type: string; body: Buffer | string } {
  const html = 'text/html; charset=utf-8'
  if (name.startsWith('npm/')) {
    const [file, type] = [NPM_FILE.exec(name)?.[1], TYPES[extname(name)]]
    if (!file || !type) throw new Error(`not a file for pages: ${name}`)
    return { type, body: readFileSync(join(PACKAGE_DIR, 'node_modules', file)) }
  }
  if (/^[\w-]+\.html$/.test(name)) return { type: html, body: readFileSync(join(PACKAGE_DIR, 'test/pages', name)) }
  return { type: html, body: `<!doctype html><title>${name}</title><h1>${name}</h1>` }
}

/**
 * Loads an address that may fail, in a separate tab. The error page of a failed navigation comes late, and would interrupt the next navigation of `page`. @throws as
 * `goto`
 */
export async function tryToLoad(page: Page, url: string): Promise<{ answer: Response; title: string }> {
  const tab = await page.context().newPage()
  try {
    const answer = (await tab.goto(url))!
    return { answer, title: await tab.title() }
  } finally {
    await tab.close()
  }
}
