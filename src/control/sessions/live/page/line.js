// The connection to the session: one WebSocket at a time, reopened until the session has ended.

/** Waits between attempts, in milliseconds. The last one repeats. */
const WAITS = [250, 500, 1000, 2000, 4000, 8000]
const STATE_MS = 5000
/** WebSocket close codes by which the service says that the session has ended (docs/operations.md). */
const ENDED = [4001, 4002, 4003]

/** The channel for noVNC, with the interface of a WebSocket. It gets the binary messages; the text messages are ours. */
class Channel {
  onopen = null
  onmessage = null
  onerror = null
  onclose = null
  #socket

  constructor(url, onText) {
    this.#socket = new WebSocket(url)
    this.#socket.binaryType = 'arraybuffer'
    this.#socket.onopen = (event) => this.onopen?.(event)
    this.#socket.onerror = (event) => this.onerror?.(event)
    this.#socket.onmessage = (event) => (typeof event.data === 'string' ? onText(JSON.parse(event.data)) : this.onmessage?.(event))
    this.#socket.onclose = (event) => {
      this.closed?.(event)
      this.onclose?.(event)
    }
  }
  get binaryType() {
    return this.#socket.binaryType
  }
  set binaryType(kind) {
    this.#socket.binaryType = kind
  }
  get protocol() {
    return this.#socket.protocol
  }
  get readyState() {
    return this.#socket.readyState
  }
  send(data) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data)
  }
  close() {
    this.#socket.close()
  }
  tell(what) {
    this.send(JSON.stringify(what))
  }
}

/**
 * Keeps a connection to `base`. `on.open(channel)` gets each new channel before it is open. `on.told(what)` gets messages of the session other
 * than the picture. `on.lost(why)` is called when a connection broke. `on.ended(reason, message)` is called once, when there will be no further
 * connection.
 */
export function keepLine(base, on) {
  const url = new URL(`${base}/socket`, location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  let attempts = 0
  let hurry = () => {}

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  /** The service's answer about the session; undefined when it does not answer. */
  async function ask() {
    try {
      const answer = await fetch(`${base}/state`, { cache: 'no-store', signal: AbortSignal.timeout(STATE_MS) })
      return answer.status === 200 || answer.status === 404 || answer.status === 410 ? await answer.json() : undefined
    } catch {
      return undefined
    }
  }

  function open() {
    const channel = new Channel(url, on.told)
    channel.closed = (event) => void again(event)
    on.open(channel)
  }

  async function again({ code, reason }) {
    let why
    try {
      why = JSON.parse(reason).reason
    } catch {}
    on.lost(why)
    if (ENDED.includes(code)) return on.ended(why)
    await pause(WAITS[Math.min(attempts, WAITS.length - 1)] * (0.8 + 0.4 * Math.random()))
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
  return { steady: () => (attempts = 0) }
}
