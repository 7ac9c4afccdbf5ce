// Receives a build's zip.
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Refused } from './serve.ts'

/** The control plane has its own limit; this one protects the disk that all builds share. */
const MAX_ARCHIVE_BYTES = 2 * 1024 ** 3

/** Writes `body` to `file`. @throws 400 when it is too long or incomplete */
export async function receiveArchive(body: IncomingMessage, file: string): Promise<void> {
  let length = 0
  try {
    await pipeline(
      body,
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          length += chunk.length
          if (length > MAX_ARCHIVE_BYTES) throw new Refused('bad_request', `the archive has more than ${MAX_ARCHIVE_BYTES} bytes`)
          yield chunk
        }
      },
      createWriteStream(file, { mode: 0o600 }),
    )
  } catch (error) {
    await rm(file, { force: true })
    throw error instanceof Refused ? error : new Refused('bad_request', `the archive arrived incomplete: ${(error as Error).message}`)
  }
}
