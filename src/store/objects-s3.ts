// Objects in an S3 bucket, by the official client. It uses only features of every S3 server: no conditional writes, no versions, no tags.
import { createReadStream } from 'node:fs'
import { addAbortSignal, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import type { S3Settings } from '../base/s3-settings.ts'
import { Slots } from '../base/slots.ts'
import { Unavailable } from '../base/unavailable.ts'
import { abortable } from '../base/wait.ts'
import { assertKey, isKey, measured, PUT_MS, type Objects } from './objects.ts'

/** Limit on a connection attempt. */
const CONNECT_MS = 5_000
/** A connection on which nothing arrives or leaves for this long counts as dead. */
const SILENCE_MS = 30_000
/** Limit on one call, with its retries: a page of a list, a piece of an object. */
const CALL_MS = 60_000
/** Attempts per request, like the client's default. */
const ATTEMPTS = 3
/** An upload's part: S3 takes 5 MiB to 5 GiB, and 10,000 of them, which is 80 GB here. */
const PART_BYTES = 8 * 1024 * 1024
/** Concurrent parts of one upload. All are in memory. */
const PARTS_AT_ONCE = 2
/** Concurrent parts of all uploads. An upload that waits keeps its parts and reads no more of its content. */
const PARTS_IN_ALL = 16
/** Concurrent files: after an outage many recordings wait, and each takes 24 MiB of memory. */
const FILES_AT_ONCE = 4
/** An object is read in pieces of this size, each in a request of its own: a reader that pauses holds no connection that the server would close. */
const PIECE_BYTES = 4 * 1024 * 1024
/** Retry-After when the store does not answer. */
const RETRY_SECONDS = 5

/** Objects in the bucket of these settings. Disposing closes the connections. */
export function s3Objects({ bucket, endpoint, region, accessKeyId, secretAccessKey, prefix }: S3Settings): Objects {
  const client = new S3Client({
    region,
    // Servers other than Amazon's seldom have a host name for each bucket.
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: ATTEMPTS,
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: SILENCE_MS },
    // Every request's content is signed by its SHA-256 anyway; many servers do not know Amazon's newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
  const files = new Slots(FILES_AT_ONCE)
  const parts = new Slots(PARTS_IN_ALL)
  const root = `${prefix}/`
  const at = (key: string) => {
    assertKey(key)
    return { Bucket: bucket, Key: root + key }
  }

  /** One call with its limit. @throws Unavailable, or the reason of `signal` */
  async function call<T>(what: string, signal: AbortSignal | undefined, work: (abortSignal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = AbortSignal.timeout(CALL_MS)
    try {
      return await work(signal ? AbortSignal.any([signal, limit]) : limit)
    } catch (error) {
      signal?.throwIfAborted()
      throw failure(what, limit.aborted ? new Error(`no answer within ${CALL_MS} ms`) : error)
    }
  }

  async function upload(key: string, body: Readable, signal: AbortSignal): Promise<void> {
    const place = at(key)
    const limit = AbortSignal.timeout(PUT_MS)
    const ended = AbortSignal.any([signal, limit])
    let broken: Error | undefined
    body.on('error', (error) => (broken ??= error))
    try {
      await abortable(send(place, partsOf(body), ended), ended)
    } catch (error) {
      signal.throwIfAborted()
      if (limit.aborted) throw failure('an upload', new Error(`not complete within ${PUT_MS} ms`))
      // An error of the content is its owner's, unchanged.
      throw broken ?? failure('an upload', error)
    } finally {
      body.destroy()
    }
  }

  /** Sends content as an object, or in parts when it has more than one. A part that waits has no request yet, so none of the client's timeouts runs. */
  async function send(place: { Bucket: string; Key: string }, content: AsyncGenerator<Buffer>, signal: AbortSignal): Promise<void> {
    const first = ((await content.next()).value as Buffer | undefined) ?? Buffer.alloc(0)
    if (first.length < PART_BYTES) {
      await parts.run(() => client.send(new PutObjectCommand({ ...place, Body: first }), { abortSignal: signal }), signal)
      return
    }
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(place), { abortSignal: signal })
    const failed = new AbortController()
    const ended = AbortSignal.any([signal, failed.signal])
    const sent: { PartNumber: number; ETag: string | undefined }[] = []
    let count = 0
    const next = async (): Promise<Buffer | undefined> => (await content.next()).value as Buffer | undefined
    const sendFrom = async (part: Buffer | undefined): Promise<void> => {
      for (let Body = part ?? (await next()); Body; Body = await next()) {
        const PartNumber = ++count
        const command = new UploadPartCommand({ ...place, UploadId, PartNumber, Body })
        const { ETag } = await parts.run(() => client.send(command, { abortSignal: ended }), ended)
        sent.push({ PartNumber, ETag })
      }
    }
    try {
      // The first part is not waited for before the second one is read.
      await Promise.all(Array.from({ length: PARTS_AT_ONCE }, (_, at) => sendFrom(at === 0 ? first : undefined)))
      const Parts = sent.toSorted((a, b) => a.PartNumber - b.PartNumber)
      await client.send(new CompleteMultipartUploadCommand({ ...place, UploadId, MultipartUpload: { Parts } }), { abortSignal: ended })
    } catch (error) {
      failed.abort(error)
      // In the background. dropUnfinished() removes what remains then, or after a crash.
      client.send(new AbortMultipartUploadCommand({ ...place, UploadId })).catch(() => {})
      throw error
    }
  }

  /** Bytes from `start` to `end` at most, and the object's length; undefined when the key does not exist. */
  async function piece(key: string, start: number, end: number, signal: AbortSignal | undefined): Promise<{ bytes: number; content: Buffer } | undefined> {
    const place = at(key)
    const read = () =>
      call('a read', signal, async (abortSignal) => {
        try {
          const { Body, ContentRange } = await client.send(new GetObjectCommand({ ...place, Range: `bytes=${start}-${end}` }), { abortSignal })
          const content = await buffer(addAbortSignal(abortSignal, Body as Readable))
          if (ContentRange === undefined && content.length > 0) throw new Error('the server ignores Range')
          return { content, bytes: ContentRange === undefined ? 0 : Number(ContentRange.split('/')[1]) }
        } catch (error) {
          if (isMissing(error)) return undefined
          // There is no byte at `start`: the object may be empty.
          if (!(error instanceof S3ServiceException) || error.$metadata.httpStatusCode !== 416) throw error
          const { ContentLength } = await client.send(new HeadObjectCommand(place), { abortSignal })
          return { content: Buffer.alloc(0), bytes: ContentLength ?? 0 }
        }
      })
    // The client retries requests, but not an answer that breaks in the middle.
    return read().catch((error: unknown) => {
      signal?.throwIfAborted()
      if (!(error instanceof Unavailable)) throw error
      return read()
    })
  }

  return {
    async put(key, content, { maxBytes }, signal) {
      const { chunks, stored } = measured(content, maxBytes, signal)
      await upload(key, Readable.from(chunks, { objectMode: false }), signal)
      return stored()
    },
    putFile: (key, path, signal) => files.run(() => upload(key, createReadStream(path), signal), signal),
    async get(key, range, signal) {
      const start = range?.start ?? 0
      const end = range?.end ?? Infinity
      const first = await piece(key, start, Math.min(end, start + PIECE_BYTES - 1), signal)
      if (!first) return undefined
      const left = new AbortController()
      const ended = signal ? AbortSignal.any([signal, left.signal]) : left.signal
      async function* pieces(): AsyncGenerator<Buffer> {
        const behind = Math.min(end + 1, first!.bytes)
        if (first!.content.length > 0) yield first!.content
        for (let from = start + first!.content.length; from < behind;) {
          const next = await piece(key, from, Math.min(behind, from + PIECE_BYTES) - 1, ended)
          if (!next || next.content.length === 0) throw new Error(`the object ${key} has become shorter while it was read`)
          yield next.content
          from += next.content.length
        }
      }
      const content = Readable.from(pieces(), { objectMode: false, highWaterMark: 1 })
      content.once('close', () => left.abort(new Error('its reader has left')))
      return { bytes: first.bytes, content }
    },
    async *list(prefix, signal) {
      const Prefix = `${at(prefix).Key}/`
      for (let token: string | undefined, isFirst = true; isFirst || token !== undefined; isFirst = false) {
        const page = await call('a list', signal, (abortSignal) =>
          client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix, ContinuationToken: token }), { abortSignal }),
        )
        for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
          const key = Key.slice(root.length)
          if (isKey(key) && LastModified) yield { key, bytes: Size, modified: LastModified }
        }
        token = page.NextContinuationToken
      }
    },
    async delete(key, signal) {
      const place = at(key)
      await call('a removal', signal, (abortSignal) => client.send(new DeleteObjectCommand(place), { abortSignal }).catch(unlessMissing))
    },
    async dropUnfinished(before, signal) {
      for (let next: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | undefined = {}; next;) {
        const marker: object = next
        const page = await call('a list of uploads', signal, (abortSignal) =>
          client.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: root, ...marker }), { abortSignal }),
        )
        for (const { Key, UploadId, Initiated } of page.Uploads ?? [])
          if (Initiated && Initiated < before)
            await call('the removal of an upload', signal, (abortSignal) =>
              client.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId }), { abortSignal }).catch(unlessMissing),
            )
        next = page.IsTruncated ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : undefined
      }
    },
    [Symbol.dispose]: () => client.destroy(),
  }
}

/** A stream in pieces of one part's size; the last one is smaller, and never empty. */
async function* partsOf(body: Readable): AsyncGenerator<Buffer> {
  let chunks: Buffer[] = []
  let bytes = 0
  for await (let chunk of body as AsyncIterable<Buffer>) {
    for (; bytes + chunk.length >= PART_BYTES; bytes = 0) {
      const rest = PART_BYTES - bytes
      yield Buffer.concat([...chunks, chunk.subarray(0, rest)])
      chunks = []
      chunk = chunk.subarray(rest)
    }
    chunks.push(chunk)
    bytes += chunk.length
  }
  if (bytes > 0) yield Buffer.concat(chunks)
}

/** Whether S3 reports that an object or an upload does not exist. A missing bucket is a different error. */
const isMissing = (error: unknown): boolean => error instanceof S3ServiceException && ['NoSuchKey', 'NotFound', 'NoSuchUpload'].includes(error.name)

const unlessMissing = (error: unknown): void => {
  if (!isMissing(error)) throw error
}

/** The error for callers. The cause is for the log: it has the server's code and message, and nothing of the request, which contains signatures. */
function failure(what: string, error: unknown): Unavailable {
  if (error instanceof Unavailable) return error
  const { name, message } = error as Error
  const status = error instanceof S3ServiceException ? ` (${error.$metadata.httpStatusCode ?? 'no answer'})` : ''
  return new Unavailable('the object store does not answer', RETRY_SECONDS, new Error(`${what} in S3 failed: ${name}: ${message}${status}`))
}
