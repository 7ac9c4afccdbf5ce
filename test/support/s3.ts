// An S3 server and an STS server in the test's process, on one port. They check signatures as Amazon does, and refuse a request with wrong or expired credentials.
import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { newId } from '../../src/base/ids.ts'
import { objectAnswers, type Answer } from './s3-objects.ts'
import { serveSockets } from './upstreams.ts'
import type { AuditLogEntry } from '../../src/control/access/audit-logs/contract.ts'

/** The credentials that the server accepts. */
export const KEYS = { accessKeyId: 'AKIACOB', secretAccessKey: 'the-secret-key' }

export interface StoredObject {
  body: Buffer
  headers: IncomingMessage['headers']
  /** The time at which it was stored. */
  at: Date
  /** The role whose credentials signed the request; undefined for {@link KEYS}. */
  role: string | undefined
}

export interface S3Server extends AsyncDisposable {
  url: string
  buckets: Set<string>
  /** The objects, by bucket, `/` and key. */
  objects: Map<string, StoredObject>
  /** The roles that a client may assume, each with its ExternalId. */
  roles: Map<string, string>
  /** How often a role was assumed, how many uploads of objects have begun, and how many of them were stored or refused. */
  counts: { assumed: number; begun: number; puts: number }
  /**
   * Makes the server refuse all objects with this status (with `afterPuts`, only after that many uploads), or delay each upload by `ms`; it is then dropped if its
   * client has left.
   */
  trouble: { status?: number; afterPuts?: number; ms?: number }
  /** The exported entries below a prefix of a bucket, one list per object, in the order of their keys. */
  exported(bucket: string, prefix?: string): AuditLogEntry[][]
}

export async function s3Server(): Promise<S3Server> {
  const temporary = new Map<string, { secret: string; token: string; role: string }>()
  const it = {
    buckets: new Set(['logs']),
    objects: new Map<string, StoredObject>(),
    roles: new Map<string, string>(),
    counts: { assumed: 0, begun: 0, puts: 0 },
    trouble: {} as S3Server['trouble'],
  }

  function assumeRole(form: URLSearchParams): { status: number; xml: string } {
    const role = form.get('RoleArn')!
    if (!it.roles.has(role) || it.roles.get(role) !== form.get('ExternalId'))
      return refusal(403, 'AccessDenied', `not allowed to perform sts:AssumeRole on ${role}`)
    it.counts.assumed++
    const [id, secret, token] = [newId(), newId(), newId()]
    temporary.set(id, { secret, token, role })
    const until = new Date(Date.now() + 900_000).toISOString()
    const given = `<AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey><SessionToken>${token}</SessionToken><Expiration>${until}</Expiration>`
    return {
      status: 200,
      xml: `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>${given}</Credentials></AssumeRoleResult></AssumeRoleResponse>`,
    }
  }

  const answer = objectAnswers(it.objects, (path, body, request) => {
    it.objects.set(path, { body, headers: request.headers, at: new Date(), role: temporary.get(signerOf(request))?.role })
    return { status: 200 }
  })

  function ofBucket(request: IncomingMessage, body: Buffer): Answer {
    if (request.method === 'PUT') it.counts.puts++
    const { status } = it.trouble
    if (status !== undefined && (it.trouble.afterPuts === undefined || it.counts.puts > it.trouble.afterPuts)) {
      const { xml } = refusal(status, 'SlowDown', 'Please reduce your request rate.')
      return { status, body: xml }
    }
    const bucket = decodeURIComponent(new URL(request.url!, 'http://x').pathname).split('/')[1]!
    if (it.buckets.has(bucket)) return answer(request, body)
    return { status: 404, body: refusal(404, 'NoSuchBucket', 'The specified bucket does not exist').xml }
  }

  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request).catch(() => undefined)
      // The client has disconnected.
      if (body === undefined) return
      if (request.method === 'PUT') it.counts.begun++
      if (it.trouble.ms !== undefined) await new Promise((resolve) => setTimeout(resolve, it.trouble.ms))
      if (request.socket.destroyed) return
      const signer = signerOf(request)
      const given = temporary.get(signer)
      const secret = signer === KEYS.accessKeyId ? KEYS.secretAccessKey : given?.secret
      const isRight =
        secret !== undefined && isSigned(request, body, secret) && (given === undefined || request.headers['x-amz-security-token'] === given.token)
      const asXml = ({ status, xml }: { status: number; xml: string }): Answer => ({ status, body: xml })
      const reply = !isRight
        ? asXml(refusal(403, 'SignatureDoesNotMatch', 'The request signature does not match'))
        : request.method === 'POST' && request.url === '/'
          ? asXml(assumeRole(new URLSearchParams(body.toString())))
          : ofBucket(request, body)
      response.writeHead(reply.status, { 'content-type': 'text/xml', etag: '"x"', ...reply.headers }).end(reply.body)
    })()
  })
  const served = await serveSockets(server)
  return {
    ...it,
    ...served,
    url: `http://127.0.0.1:${served.port}`,
    get trouble() {
      return it.trouble
    },
    set trouble(trouble) {
      it.trouble = trouble
    },
    exported: (bucket, prefix = '') =>
      [...it.objects]
        .filter(([key]) => key.startsWith(`${bucket}/${prefix}`) && key.endsWith('.jsonl.gz'))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([, { body }]) => {
          const lines = gunzipSync(body).toString().trimEnd().split('\n')
          return lines.map((line) => JSON.parse(line) as AuditLogEntry)
        }),
  }
}

const refusal = (status: number, code: string, message: string) => ({
  status,
  // S3 and STS have different error forms.
  xml: `<ErrorResponse><Error><Code>${code}</Code><Message>${message}</Message></Error><Code>${code}</Code><Message>${message}</Message></ErrorResponse>`,
})

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')
const signatureOf = ({ headers }: IncomingMessage) =>
  /Credential=([^/]+)\/(\d+)\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)/.exec(headers.authorization ?? '')
const signerOf = (request: IncomingMessage): string => signatureOf(request)?.[1] ?? ''

/** Whether a request has the right Signature Version 4, and the content that was signed. */
function isSigned(request: IncomingMessage, body: Buffer, secret: string): boolean {
  const [, , date, region, service, names, signature] = signatureOf(request)!
  const { pathname, searchParams } = new URL(request.url!, 'http://x')
  const query = [...searchParams].map((pair) => pair.map(encodeURIComponent).join('=')).sort()
  const claimed = request.headers['x-amz-content-sha256'] as string | undefined
  if (claimed !== undefined && claimed !== sha256(body)) return false
  const headers = names!.split(';').map((name) => `${name}:${String(request.headers[name]).trim()}\n`)
  const canonical = [request.method, pathname, query.join('&'), headers.join(''), names, claimed ?? sha256(body)].join('\n')
  const scope = `${date}/${region}/${service}/aws4_request`
  const text = ['AWS4-HMAC-SHA256', request.headers['x-amz-date'], scope, sha256(canonical)].join('\n')
  const key = [region!, service!, 'aws4_request'].reduce<Buffer>(hmac, hmac(`AWS4${secret}`, date!))
  return hmac(key, text).toString('hex') === signature
}
