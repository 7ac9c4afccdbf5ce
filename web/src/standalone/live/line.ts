// The connection to the session: one WebSocket at a time, reopened until the session ends.

/** The pauses between attempts, in milliseconds. The last one repeats. */
const WAITS = [250, 500, 1000, 2000, 4000, 8000]
const STATE_MS = 5000
/** The WebSocket close codes that mean that the session has ended (docs/operations.md). */
const ENDED = [4001, 4002, 4003]

/** The session's messages besides its picture. */
export type Told =
  | { type: 'hello'; control: boolean }
  | { type: 'viewers'; count: number }
  | { type: 'waiting'; waiting: boolean }
  | { type: 'clipboard'; text: string; initial?: boolean }

/** A channel with the interface of a WebSocket, for noVNC. noVNC gets the binary messages; the text messages are Cob's own. */
export class Channel {
  onopen: ((event: Event) => void) | null = null
  onmessage: ((event: MessageEvent) => void) | null = null
  onerror: ((event: Event) => void) | null = null
  onclose: ((event: CloseEvent) => void) | null = null
  /** Called before `onclose`. */
  closed: ((event: CloseEvent) => void) | undefined
  readonly #socket: WebSocket

  constructor(url: URL, onText: (message: Told) => void) {
    this.#socket = new WebSocket(url)
    this.#socket.binaryType = 'arraybuffer'
    this.#socket.onopen = (event) => this.onopen?.(event)
    this.#socket.onerror = (event) => this.onerror?.(event)
    this.#socket.onmessage = (event) => (typeof event.data === 'string' ? onText(JSON.parse(event.data) as Told) : this.onmessage?.(event))
    this.#socket.onclose = (event) => {
      this.closed?.(event)
      this.onclose?.(event)
    }
  }
  get binaryType(): BinaryType {
    return this.#socket.binaryType
  }
  set binaryType(kind) {
    this.#socket.binaryType = kind
  }
  get protocol(): string {
    return this.#socket.protocol
  }
  get readyState(): number {
    return this.#socket.readyState
  }
  send(data: string | BufferSource): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data)
  }
  close(): void {
    this.#socket.close()
  }
  tell(what: object): void {
    this.send(JSON.stringify(what))
  }
}

interface On {
  /** Gets each new channel before it opens. */
  open: (channel: Channel) => void
  told: (what: Told) => void
  /** The connection broke. */
  lost: (why: string | undefined) => void
  /** Called once, when no further connection will be made. */
  ended: (reason: string | undefined, message?: string) => void
}

/** Keeps a connection to `base`. Call the returned function when a connection works; it resets the pauses. */
export function keepLine(base: string, on: On): () => void {
  const url = new URL(`${base}/socket`, location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  let attempts = 0
  let hurry = (): void => {}

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  /** The service's answer about the session; undefined when it does not answer. */
  async function ask(): Promise<{ state: string; reason?: string; message?: string } | undefined> {
    try {
      const answer = await fetch(`${base}/state`, { cache: 'no-store', signal: AbortSignal.timeout(STATE_MS) })
      return answer.status === 200 || answer.status === 404 || answer.status === 410 ? ((await answer.json()) as { state: string }) : undefined
    } catch {
      return undefined
    }
  }

  function open(): void {
    const channel = new Channel(url, on.told)
    channel.closed = (event) => void again(event)
    on.open(channel)
  }

  async function again({ code, reason }: CloseEvent): Promise<void> {
    let why: string | undefined
    try {
      why = (JSON.parse(reason) as { reason?: string }).reason
    } catch {}
    on.lost(why)
    if (ENDED.includes(code)) return on.ended(why)
    await pause(WAITS[Math.min(attempts, WAITS.length - 1)]! * (0.8 + 0.4 * Math.random()))
    attempts++
    const found = await ask()
    if (found && found.state !== 'running') return on.ended(found.reason, found.message)
    open()
  }

  addEventListener('online', () => hurry())
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) hurry()
  })
  open()
  return () => void (attempts = 0)
}
