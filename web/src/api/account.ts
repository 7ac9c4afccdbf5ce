// Who is signed in. The key itself is never kept: the service gives a cookie for it, which scripts cannot read.
import { useSyncExternalStore } from 'react'

let state: 'in' | 'out' = 'in'
const listeners = new Set<() => void>()

function become(next: typeof state): void {
  if (state === next) return
  state = next
  for (const listener of listeners) listener()
}

/** A call was refused, or somebody has signed out: the page to sign in is shown. */
export const signedOut = (): void => become('out')
export const signedIn = (): void => become('in')

export const useSignedIn = (): boolean =>
  useSyncExternalStore(
    (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    () => state === 'in',
  )
