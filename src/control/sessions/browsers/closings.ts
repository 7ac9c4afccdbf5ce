// Notices of ended sessions between replicas: any replica may hold calls and connections of a session.
import type { AcquiredSession } from '../../../http/route.ts'
import type { EndReason } from './end-step.ts'
import type { Registry } from './fleet/registry.ts'
import type { OpenCalls } from './open-calls.ts'
import { closeOwnSockets, isReason, type OpenSockets } from './sockets.ts'

/** The notice that a session ends. With `lease`: the caller of that acquisition has given the browser back. */
export const closingText = (id: string, reason: EndReason, lease?: number): string => [id, reason, ...(lease === undefined ? [] : [lease])].join(' ')

/** Ends the calls and connections of a caller who has given a browser back, as far as this process holds them. */
export function dismissOwn({ id, lease }: AcquiredSession, openSockets: OpenSockets, calls: OpenCalls): void {
  calls.end(id, lease)
  closeOwnSockets(openSockets, id, 'released', lease)
}

/** Applies a notice here. */
export function onClosing(text: string, openSockets: OpenSockets, calls: OpenCalls, registry: Registry): void {
  const [id, reason, lease] = text.split(' ')
  if (id === undefined || !isReason(reason)) return
  if (lease === undefined) {
    calls.end(id)
    return closeOwnSockets(openSockets, id, reason)
  }
  dismissOwn({ id, lease: Number(lease) }, openSockets, calls)
  registry.putBack(id, Number(lease))
}
