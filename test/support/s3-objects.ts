// An S3 server's calls on stored objects: reading, listing, removing, and uploads in parts.
import type { IncomingMessage } from 'node:http'
import { newId } from '../../src/base/ids.ts'
import type { StoredObject } from './s3.ts'

export interface Answer {
  status: number
  body?: Buffer | string
  headers?: Record<string, string>
}

/** The number of keys on one page of a list. Amazon's pages have 1,000; with few keys, a test sees whether a client asks for the next page. */
const PAGE = 7

const missing: Answer = { status: 404, body: '<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>' }

/** Keeps the parts of uploads until they are complete. `store` stores an object, and may refuse it. */
export function objectAnswers(objects: Map<string, StoredObject>, store: (path: string, body: Buffer, request: IncomingMessage) => Answer) {
  const uploads = new Map<string, Map<number, Buffer>>()

  function list(bucket: string, query: URLSearchParams): Answer {
    const prefix = `${bucket}/${query.get('prefix') ?? ''}`
    const after = query.get('continuation-token') ?? ''
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted((a, b) => (a < b ? -1 : 1))
    const page = keys.slice(0, PAGE)
    const entries = page.map((path) => {
      const { body, at } = objects.get(path)!
      return `<Contents><Key>${path.slice(bucket.length + 1)}</Key><Size>${body.length}</Size><LastModified>${at.toISOString()}</LastModified></Contents>`
    })
    const next = keys.length > PAGE ? `<IsTruncated>true</IsTruncated><NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
    return { status: 200, body: `<ListBucketResult>${entries.join('')}${next}</ListBucketResult>` }
  }

  function read({ body }: StoredObject, range: string | undefined): Answer {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? []
    if (first === undefined) return { status: 200, body }
    if (Number(first) >= body.length) return { status: 416, body: '<Error><Code>InvalidRange</Code></Error>' }
    const end = Math.min(Number(last), body.length - 1)
    return { status: 206, body: body.subarray(Number(first), end + 1), headers: { 'content-range': `bytes ${first}-${end}/${body.length}` } }
  }

  return function answer(request: IncomingMessage, content: Buffer): Answer {
    const { pathname, searchParams: query } = new URL(request.url!, 'http://x')
    const path = decodeURIComponent(pathname.slice(1))
    const upload = query.get('uploadId')
    switch (request.method) {
      case 'POST': {
        if (upload === null) {
          const id = newId()
          uploads.set(id, new Map())
          return { status: 200, body: `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>` }
        }
        const parts = [...uploads.get(upload)!].toSorted(([a], [b]) => a - b).map(([, part]) => part)
        uploads.delete(upload)
        store(path, Buffer.concat(parts), request)
        return { status: 200, body: '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>' }
      }
      case 'PUT':
        if (upload === null) return store(path, content, request)
        uploads.get(upload)!.set(Number(query.get('partNumber')), content)
        return { status: 200 }
      case 'DELETE':
        if (upload === null) objects.delete(path)
        else uploads.delete(upload)
        return { status: 204 }
      default: {
        if (query.has('uploads')) return { status: 200, body: '<ListMultipartUploadsResult></ListMultipartUploadsResult>' }
        if (query.has('list-type')) return list(path.replace(/\/$/, ''), query)
        const found = objects.get(path)
        if (!found) return missing
        return request.method === 'HEAD' ? { status: 200, headers: { 'content-length': String(found.body.length) } } : read(found, request.headers.range)
      }
    }
  }
}
