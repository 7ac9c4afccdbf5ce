// Downloads all results of an audit log search, chunk by chunk, into one file.
import { useState } from 'react'
import { ApiError, bytes } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { size } from '../../ui/show.tsx'
import { done, failed } from '../../ui/toasts.tsx'
import { saveBlob } from '../sessions/download.ts'

/** The limit for a chunk, which the service creates before it sends it. */
const CHUNK_MS = 120_000
/** The most rows that the service puts into one chunk. */
const CHUNK_ROWS = 50_000
/** The file ends after the chunk that passes this size, because the page holds it in memory until it is saved. */
const MAX_BYTES = 512 * 1024 * 1024
/** The pause after a 429: the service creates only a few chunks at a time, for all callers. */
const BUSY_MS = 2_000
const BUSY_TRIES = 15

interface Found {
  file: Blob
  rows: number
  /** Older entries are left. */
  hasMore: boolean
}

async function fetchAll(query: Record<string, unknown>, progress: (rows: number, bytes: number) => void): Promise<Found> {
  const parts: Blob[] = []
  let [rows, count, cursor] = [0, 0, undefined as string | undefined]
  do {
    const { headers, part } = await fetchChunk({ ...query, limit: CHUNK_ROWS, ...(cursor !== undefined && { cursor }) })
    parts.push(part)
    rows += Number(headers.get('x-row-count'))
    count += part.size
    cursor = headers.get('x-next-cursor') ?? undefined
    progress(rows, count)
  } while (cursor !== undefined && count < MAX_BYTES)
  return { file: new Blob(parts, { type: 'application/octet-stream' }), rows, hasMore: cursor !== undefined }
}

async function fetchChunk(query: Record<string, unknown>): Promise<{ headers: Headers; part: Blob }> {
  for (let tries = 1; ; tries++) {
    try {
      const response = await bytes('exportAuditLogs', { query: { ...query, format: 'jsonl' } as never }, { signal: AbortSignal.timeout(CHUNK_MS) })
      return { headers: response.headers, part: await response.blob() }
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 429) || tries === BUSY_TRIES) throw error
      await new Promise((resolve) => setTimeout(resolve, BUSY_MS))
    }
  }
}

const entries = (count: number): string => `${count.toLocaleString()} ${count === 1 ? 'entry' : 'entries'}`

const tooMuch = (rows: number): void =>
  failed('The file is not all of it')(
    new Error(`It has the newest ${entries(rows)}: a file has about ${size(MAX_BYTES)} at most. Choose a shorter time for those before them.`),
  )

/** With `query` undefined there is nothing to download. */
export function Download({ query }: { query: (() => Record<string, unknown>) | undefined }) {
  const [transfer, setTransfer] = useState<string>()
  const download = async (): Promise<void> => {
    setTransfer('Downloading…')
    try {
      const { file, rows, hasMore } = await fetchAll(query!(), (count, length) => setTransfer(`Downloading: ${entries(count)}, ${size(length)}`))
      saveBlob(file, `audit-log${hasMore ? '-newest-part' : ''}.jsonl`)
      if (hasMore) return tooMuch(rows)
      done(`The file has all ${entries(rows)} of this time and these filters`)
    } finally {
      setTransfer(undefined)
    }
  }
  return (
    <Button isDisabled={transfer !== undefined || query === undefined} onPress={() => void download().catch(failed('The download has failed'))}>
      {transfer ?? 'Download'}
    </Button>
  )
}
