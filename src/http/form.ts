// Forms with files (multipart/form-data), parsed part by part as they arrive. File contents are never buffered.
import { Busboy, type BusboyHeaders } from '@fastify/busboy'
import { addAbortListener } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { fault } from './fault.ts'
import type { FormPart } from './route.ts'

/** Limit on all text fields of a form, in bytes. They wait in memory while a file before them is stored. */
const MAX_TEXT = 4 * 1024 * 1024
/** Limit on a text field. Large content is sent as a file. */
const LIMITS = { fieldNameSize: 256, fieldSize: 1024 * 1024, fields: 1_000, files: 1_000, parts: 2_000, headerPairs: 50 }

/**
 * The parts of a request's form in order. The next part comes once the content of a file has been read to its end.
 * @throws 400 naming `content-type` or `body`
 */
export async function* readForm(request: IncomingMessage, signal: AbortSignal): AsyncGenerator<FormPart> {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*;/i.test(type)) throw fault.field('content-type', 'must be multipart/form-data')
  const parts: FormPart[] = []
  const files = new Set<Readable>()
  let wake = () => {}
  let over = false
  let text = 0
  let failed: unknown
  const end = (error?: unknown) => {
    failed ??= error
    over = true
    // The reader of the file gets this error from its stream. Without a listener here, a form that ends inside a file would end the process when
    // nothing reads the file yet.
    if (error !== undefined) for (const file of files) file.destroy(error as Error)
    wake()
  }
  const add = (part: FormPart) => {
    parts.push(part)
    wake()
  }
  const parser = open({ ...request.headers, 'content-type': type })
  const onAbort = () => end(signal.reason)
  using _aborted = addAbortListener(signal, onAbort)
  parser
    .on('field', (name, value, nameTruncated, valueTruncated) => {
      if (nameTruncated || valueTruncated) end(fault.field(name, `is longer than ${LIMITS.fieldSize} bytes`))
      else if ((text += Buffer.byteLength(value)) > MAX_TEXT) end(fault.tooLarge(MAX_TEXT))
      else add({ name, value })
    })
    .on('file', (name, stream, filename) => {
      const content = stream as Readable
      files.add(content.on('error', () => {}).on('close', () => files.delete(content)))
      add({ name, filename: filename ?? '', content })
    })
    .on('partsLimit', () => end(fault.field('body', `has more than ${LIMITS.parts} parts`)))
    .on('filesLimit', () => end(fault.field('body', `has more than ${LIMITS.files} files`)))
    .on('fieldsLimit', () => end(fault.field('body', `has more than ${LIMITS.fields} fields`)))
    .on('error', (error: unknown) => end(fault.field('body', `is not a valid form (${(error as Error).message})`)))
    .on('finish', () => end())
  request.on('error', onAbort).on('aborted', onAbort)
  request.pipe(parser)
  try {
    for (;;) {
      const part = parts.shift()
      if (part) yield part
      else if (failed) throw failed
      else if (over) return
      else
        await new Promise<void>((resolve) => {
          wake = resolve
          if (over || parts.length > 0) resolve()
        })
    }
  } finally {
    request.unpipe(parser)
    request.resume()
    for (const part of parts) if ('content' in part) part.content.resume()
  }
}

function open(headers: BusboyHeaders) {
  try {
    return new Busboy({ headers, limits: LIMITS, preservePath: true })
  } catch (error) {
    throw fault.field('content-type', `is not valid for a form (${(error as Error).message})`)
  }
}
