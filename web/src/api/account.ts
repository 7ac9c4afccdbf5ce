// Whether a person is signed in. The page never stores the key: the service exchanges it for a cookie that scripts cannot read.
import { useSyncExternalStore } from 'react'

let state: 'in' | 'out' = 'in'
const listeners = new Set<() => void>()

function become(next: typeof state): void {
  if (state === next) return
  state = next
  for (const listener of listeners) listener()
}

/** Call this after a refused call or a sign-out: the sign-in page appears. */
export const signedOut = (): void => become('out')
export const signedIn = (): void => become('in')

export const useSignedIn = (): boolean =>
  useSyncExternalStore(
    (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    () => state === 'in',
  )
