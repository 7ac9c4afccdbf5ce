// What the page asks of the service: the token, the state of the login every second, and to take answers.
import type { Connection } from '../../../../src/control/logins/auth-connections/shown/contract.ts'
import { ApiError, refusalOf } from '../../api/error.ts'

const POLL_MS = 1_000
/** Limit on one request. */
const REQUEST_MS = 20_000
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
/** Failed requests in a row until the person is told that there is no connection. */
const TOLD_AFTER = 2

/** The token is not valid any more, or the login is gone. */
export const isOver = (error: unknown): boolean => error instanceof ApiError && [401, 403, 404, 410].includes(error.status)

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A request with a short answer. */
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

/** Exchanges the code for a token. A service that does not answer is asked again: the code is still good. */
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

/** Asks for the state of a login until `stop`, less often while the service does not answer, and not while nobody sees the page. */
export function follow({ id, token, onState, onOver, onConnection }: Followed): Session {
  const stopped = new AbortController()
  const { signal } = stopped
  let failures = 0
  /** Requests are counted: an answer that was asked for before the one that is shown comes too late. */
  let asked = 0
  let shown = 0

  /** Asks for the state now. */
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
  /** It is seen again. Timers of a phone that was put away are late. */
  const back = (): void => {
    if (document.visibilityState === 'visible') void refresh()
  }
  document.addEventListener('visibilitychange', back, { signal })
  addEventListener('online', back, { signal })
  void keepAsking()
  return { stop: () => stopped.abort(), refresh, submit: (body) => ask(`${pathOf(id)}/submit`, { token, body }) }
}
