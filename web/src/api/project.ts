// The project of all calls. It is stored in the browser, because two people who share a sign-in may look at different projects.
import { useSyncExternalStore } from 'react'

const STORED = 'cob.project'
const listeners = new Set<() => void>()
let current = stored()

function stored(): string | undefined {
  try {
    return localStorage.getItem(STORED) ?? undefined
  } catch {
    return undefined // Browsers may forbid storage; the choice then lasts until the page is closed.
  }
}

export const project = {
  get current(): string | undefined {
    return current
  },
  /** With undefined, calls have no header, and the service chooses the project. */
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
