// What the page asks of the service: the token, the state of the login, and answers. States come by an event stream; without one the page asks every two seconds.
const POLL_MS = 2_000
/** Limit on one request. */
const REQUEST_MS = 20_000
/** The service sends a heartbeat more often than this; a stream that is silent for longer is broken. */
const SILENT_MS = 45_000
/** A stream that says nothing for so long after it began may be held back by a proxy: meanwhile the page asks. */
const FIRST_MS = 4_000
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
/** Longest event. A state is a few kilobytes. */
const MAX_EVENT = 1_000_000
/** Failed requests in a row until the person is told that there is no connection. */
const TOLD_AFTER = 2

/** The service has answered with an error. */
export class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** The token is not valid any more, or the login is gone. */
export const isOver = (error) => error instanceof Refused && [401, 403, 404, 410].includes(error.status)

async function send(path, { token, body, accept = 'application/json', signal }) {
  const response = await fetch(path, {
    method: body ? 'POST' : 'GET',
    headers: { accept, ...(token && { authorization: `Bearer ${token}` }), ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
    signal,
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
    referrerPolicy: 'no-referrer',
  })
  if (response.ok) return response
  const { message } = await response.json().catch(() => ({}))
  throw new Refused(response.status, typeof message === 'string' ? message : '')
}

/** A request with a short answer. */
async function ask(path, options) {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), REQUEST_MS)
  try {
    return await (await send(path, { ...options, signal: limit.signal })).json()
  } finally {
    clearTimeout(timer)
  }
}

/** A pause that `wake` ends early. */
function makePauses() {
  const waiting = new Set()
  return {
    pause: (ms) =>
      new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer)
          waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, ms)
        waiting.add(done)
      }),
    wake: () => {
      for (const done of waiting) done()
    },
  }
}

const pathOf = (id) => `/auth/connections/${encodeURIComponent(id)}`

/** Exchanges the code for a token. A service that does not answer is asked again: the code is still good. */
export async function exchange(id, code, onTrouble) {
  for (let attempt = 0; ; attempt++) {
    try {
      const { jwt } = await ask(`${pathOf(id)}/exchange`, { body: { code } })
      return jwt
    } catch (error) {
      if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error
      onTrouble()
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]))
    }
  }
}

/** The events of a stream, one at a time. What kind it is stands in its data. */
async function* eventsOf(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    heard()
    text = `${text}${value}`.replaceAll('\r\n', '\n')
    if (text.length > MAX_EVENT) throw new Error('an event of the stream is too long')
    const parts = text.split('\n\n')
    text = parts.pop()
    for (const part of parts) {
      const lines = part.split('\n')
      const data = lines
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5))
        .join('\n')
      if (data) yield JSON.parse(data)
    }
  }
}

/**
 * Follows a login until `stop`.
 * @param {{ id: string, token: string, onState(state: object): void, onOver(): void, onConnection(isThere: boolean): void }} options
 */
export function follow({ id, token, onState, onOver, onConnection }) {
  const { pause, wake } = makePauses()
  let isStopped = false
  let isStreaming = false
  let failures = 0
  /** Counts states, so that an answer that was asked for before a newer event is not shown after it. */
  let revision = 0
  /** What events do not repeat: the domain, the profile. */
  let connection = {}
  let stream

  function reached() {
    failures = 0
    if (!isStopped) onConnection(true)
  }
  function failed(error) {
    if (isStopped) return
    if (isOver(error)) {
      stop()
      onOver()
    } else if (++failures >= TOLD_AFTER) onConnection(false)
  }
  function take(state) {
    revision++
    if (!isStopped) onState(state)
  }

  /** Asks for the state now. */
  async function refresh() {
    const before = revision
    try {
      const found = await ask(pathOf(id), { token })
      const { domain, profile_name, save_credentials } = found
      connection = { domain, profile_name, save_credentials }
      reached()
      if (revision === before) take(found)
    } catch (error) {
      failed(error)
    }
  }

  async function readStream() {
    stream = new AbortController()
    let silence
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(() => stream.abort(), SILENT_MS)
    }
    heard()
    try {
      const { body } = await send(`${pathOf(id)}/events`, { token, accept: 'text/event-stream', signal: stream.signal })
      for await (const event of eventsOf(body, heard)) {
        isStreaming = true
        reached()
        if (event.event === 'managed_auth_state') take({ ...connection, ...event })
      }
    } finally {
      clearTimeout(silence)
      isStreaming = false
      stream.abort()
    }
  }

  async function keepStreaming() {
    for (let attempt = 0; !isStopped; attempt++) {
      const before = revision
      // A proxy may let no stream through: whether there is a connection is told by the requests beside it.
      await readStream().catch((error) => isOver(error) && failed(error))
      if (revision > before) attempt = 0
      // Without a stream the state is asked for, from now on.
      wake()
      if (!isStopped) await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)])
    }
  }

  async function keepAsking() {
    await pause(FIRST_MS)
    while (!isStopped) {
      if (!isStreaming) await refresh()
      await pause(POLL_MS)
    }
  }

  /** A phone that was put away has lost its stream, often without noticing. */
  const back = () => {
    if (document.visibilityState !== 'visible') return
    void refresh()
    wake()
  }
  function stop() {
    isStopped = true
    stream?.abort()
    wake()
    document.removeEventListener('visibilitychange', back)
    removeEventListener('online', back)
  }

  document.addEventListener('visibilitychange', back)
  addEventListener('online', back)
  void (async () => {
    // The first state names the domain, without which nothing can be shown.
    while (!isStopped && !connection.domain) {
      await refresh()
      if (!connection.domain && !isStopped) await pause(POLL_MS)
    }
    void keepStreaming()
    void keepAsking()
  })()
  return { stop, refresh, submit: (body) => ask(`${pathOf(id)}/submit`, { token, body }) }
}
