// The page's requests to the service: gets the token, polls the state of the login every second, and sends answers.
import type { Connection } from '../../../../src/control/logins/auth-connections/shown/contract.ts'
import { ApiError, refusalOf } from '../../api/error.ts'

const POLL_MS = 1_000
/** The limit of one request. */
const REQUEST_MS = 20_000
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
/** The number of failed requests in a row after which the page shows that there is no connection. */
const TOLD_AFTER = 2

/** The token is no longer valid, or the login no longer exists. */
export const isOver = (error: unknown): boolean => error instanceof ApiError && [401, 403, 404, 410].includes(error.status)

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Sends a request whose answer is short. */
async function ask<T>(path: string, { token, body }: { token?: string; body?: object }): Promise<T> {
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), REQUEST_MS)
  try {
    const response = await fetch(path, {
      method: body ? 'POST' : 'GET',
      headers: { accept: 'application/json', ...(token && { authorization: `Bearer ${token}` }), ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
      signal: limit.signal,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
    })
    const text = await response.text()
    if (!response.ok) throw refusalOf(response.status, text, null)
    return JSON.parse(text) as T
  } finally {
    clearTimeout(timer)
  }
}

const pathOf = (id: string): string => `/auth/connections/${encodeURIComponent(id)}`

/** Exchanges the code for a token. It retries while the service does not answer, because the code is still valid. */
export async function exchange(id: string, code: string, onTrouble: () => void): Promise<string> {
  for (let attempt = 0; ; attempt++) {
    try {
      return (await ask<{ jwt: string }>(`${pathOf(id)}/exchange`, { body: { code } })).jwt
    } catch (error) {
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error
      onTrouble()
      await pause(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]!)
    }
  }
}

export interface Session {
  stop: () => void
  refresh: () => Promise<void>
  submit: (body: object) => Promise<unknown>
}

interface Followed {
  id: string
  token: string
  onState: (state: Connection) => void
  onOver: () => void
  onConnection: (isThere: boolean) => void
}

/** Polls the state of a login until `stop`: less often while the service does not answer, and not while the page is hidden. */
export function follow({ id, token, onState, onOver, onConnection }: Followed): Session {
  const stopped = new AbortController()
  const { signal } = stopped
  let failures = 0
  /** Requests are numbered, so that an answer to an older request does not replace a newer state. */
  let asked = 0
  let shown = 0

  /** Reads the state now. */
  async function refresh(): Promise<void> {
    const mine = ++asked
    try {
      const state = await ask<Connection>(pathOf(id), { token })
      if (signal.aborted || mine < shown) return
      shown = mine
      failures = 0
      onConnection(true)
      onState(state)
    } catch (error) {
      if (signal.aborted) return
      if (isOver(error)) {
        stopped.abort()
        onOver()
      } else if (++failures >= TOLD_AFTER) onConnection(false)
    }
  }
  async function keepAsking(): Promise<void> {
    while (!signal.aborted) {
      if (document.visibilityState === 'visible') await refresh()
      await pause(failures === 0 ? POLL_MS : RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]!)
    }
  }
  /** The page is visible again. A phone's timers are late after it was in the background. */
  const back = (): void => {
    if (document.visibilityState === 'visible') void refresh()
  }
  document.addEventListener('visibilitychange', back, { signal })
  addEventListener('online', back, { signal })
  void keepAsking()
  return { stop: () => stopped.abort(), refresh, submit: (body) => ask(`${pathOf(id)}/submit`, { token, body }) }
}
