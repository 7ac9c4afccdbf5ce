// The project that all calls are about. Kept in the browser, because two people who share a sign-in may look at different projects.
import { useSyncExternalStore } from 'react'

const STORED = 'cob.project'
const listeners = new Set<() => void>()
let current = stored()

function stored(): string | undefined {
  try {
    return localStorage.getItem(STORED) ?? undefined
  } catch {
    return undefined // Browsers may forbid it; the choice then lasts as long as the page.
  }
}

export const project = {
  get current(): string | undefined {
    return current
  },
  /** Undefined: the one that the service takes without a header. */
  choose(id: string | undefined): void {
    current = id
    try {
      if (id === undefined) localStorage.removeItem(STORED)
      else localStorage.setItem(STORED, id)
    } catch {}
    for (const listener of listeners) listener()
  },
  headers: (): Record<string, string> => (current === undefined ? {} : { 'x-kernel-project-id': current }),
}

export const useProject = (): string | undefined =>
  useSyncExternalStore(
    (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    () => current,
  )
