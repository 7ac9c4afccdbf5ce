// GET /docs: the documentation of this installation, which web/docs builds in advance: its pages, the same as Markdown, and the API reference. Lists for agents
// are at /llms.txt and /llms-full.txt.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { fault } from '../../../http/fault.ts'
import type { MountContext } from '../../../http/mount.ts'
import { PACKAGE_DIR } from '../../../base/paths.ts'

const BUILT = join(PACKAGE_DIR, '.cob/docs')
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

interface Part {
  type: string
  gzip: Buffer
  tag: string
}

interface Site {
  /** By name below /docs. */
  parts: ReadonlyMap<string, Part>
  /** The hashes of inline scripts in pages, for the policy. */
  inline: string
}

let reading: Promise<Site> | undefined

/** The site, kept in memory in compressed form. If a build comes while the service runs, the next request finds it. */
const site = (): Promise<Site> =>
  (reading ??= readSite().catch((error: NodeJS.ErrnoException) => {
    reading = undefined
    throw error.code === 'ENOENT' ? fault.unavailable('the documentation is not built: run script/setup') : error
  }))

async function readSite(): Promise<Site> {
  const folder = join(BUILT, 'files')
  const tag = await readFile(join(BUILT, '.tag'), 'utf8')
  const inline = new Set<string>()
  const parts = new Map<string, Part>()
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const type = TYPES[extname(entry.name)]
    if (!entry.isFile() || type === undefined) continue
    const path = join(entry.parentPath, entry.name)
    const bytes = await readFile(path)
    if (entry.name.endsWith('.html'))
      for (const [, script] of bytes.toString().matchAll(/<script(?![^>]* src=)[^>]*>(.*?)<\/script>/gs)) inline.add(`'sha256-${hash(script!, 'base64')}'`)
    parts.set(relative(folder, path), { type, gzip: await promisify(gzip)(bytes), tag: hash(bytes, 'base64url').slice(0, 22) })
  }
  if ((await readFile(join(BUILT, '.tag'), 'utf8')) !== tag) throw new Error('the documentation was built again while it was read')
  return { parts, inline: [...inline].join(' ') }
}

const hash = (content: string | Buffer, encoding: 'base64' | 'base64url'): string => createHash('sha256').update(content).digest(encoding)

/** Vue creates markup through a policy with its own name. Code has inline styles for its colours, and Swagger UI has some, too. */
const headers = (inline: string, isReference: boolean): Record<string, string> => ({
  'content-security-policy':
    `default-src 'none'; script-src 'self' ${inline}; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; ` +
    `form-action 'none'; frame-ancestors 'none'${isReference ? '' : "; require-trusted-types-for 'script'; trusted-types vue"}`,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  // Replicas of two versions may answer in turn, so browsers must revalidate every file.
  'cache-control': 'no-cache',
  vary: 'accept-encoding',
})

/** Adds the pages. They are for people and their agents, so they are not part of the API. */
export function serveDocs(context: MountContext): void {
  const { app } = context
  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const { parts, inline } = await site()
    const path = new URL(request.url, 'http://docs').pathname
    const name = path.replace(/^\/(docs)?\/?/, '').replace(/\/$/, '') || 'index'
    const part = parts.get(name) ?? parts.get(`${name}.html`)
    void reply.headers(headers(inline, /^api(\.html)?$/.test(name)))
    if (part) return sendPart(request, reply, part, name === 'llms.txt' ? context.origin(request, undefined) : undefined)
    if (!/\btext\/html\b/.test(request.headers.accept ?? '')) throw fault.notFound('page', path)
    return sendPart(request, reply.code(404), parts.get('404.html')!)
  }
  for (const path of ['/docs', '/docs/*', '/llms.txt', '/llms-full.txt']) {
    if (!path.includes('*')) context.paths.set(path, new Set(['GET']))
    app.get(path, { config: { id: 'docs', route: path } }, send)
  }
}

async function sendPart(request: FastifyRequest, reply: FastifyReply, { type, gzip, tag }: Part, origin?: string): Promise<FastifyReply> {
  void reply.type(type)
  if (origin !== undefined) return reply.send((await promisify(gunzip)(gzip)).toString().replaceAll('{{origin}}', origin))
  // Weak: the compressed answer and the plain one have the same tag.
  const etag = `W/"${tag}"`
  void reply.header('etag', etag)
  if (reply.statusCode === 200 && request.headers['if-none-match']?.split(',').some((each) => each.trim() === etag)) return reply.code(304).send()
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:\s*(?:,|$)))/.test(String(request.headers['accept-encoding'] ?? ''))) return reply.send(await promisify(gunzip)(gzip))
  return reply.header('content-encoding', 'gzip').send(gzip)
}
