// Reads server-sent events from a fetch, because an EventSource cannot send our header.

/** The limit of a line, in bytes. A session may send large data, but an endless line must not fill the page's memory. */
const MAX_LINE = 8 * 1024 * 1024

interface Frame {
  id: string | undefined
  data: string
}

/** The events of a stream, until it ends or `signal` aborts. Comments, which keep the connection open, are skipped. */
export async function* readEvents(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<Frame> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', cancel, { once: true })
  let text = ''
  let id: string | undefined
  let data: string[] = []
  try {
    while (true) {
      const { done, value } = await reader.read()
      signal.throwIfAborted()
      if (done) return
      text += value
      if (text.length > MAX_LINE) throw new Error('the stream has a line that is too long')
      const lines = text.split(/\r?\n/)
      text = lines.pop()!
      for (const line of lines) {
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
        else if (line.startsWith('id:')) id = line.slice(3).trim()
        else if (line === '' && data.length > 0) {
          yield { id, data: data.join('\n') }
          data = []
        }
      }
    }
  } finally {
    signal.removeEventListener('abort', cancel)
    cancel()
  }
}
