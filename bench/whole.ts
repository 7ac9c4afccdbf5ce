// Reads a whole stream into one buffer, with less overhead than node:stream/consumers.
import { once } from 'node:events'
import type { Readable } from 'node:stream'

export async function whole(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(stream, 'end')
  return Buffer.concat(chunks)
}
