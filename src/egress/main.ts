// The forwarder: the program through which sessions reach the proxies that their callers have named. One per service, as a process of its own: it moves every byte of
// these sessions, and has the credentials of their proxies in its memory only. It ends with the service.
import { makeLog, silentLog } from '../base/log.ts'
import type { FromForwarder, ToForwarder } from './messages.ts'
import { reachable } from './reachable.ts'
import { SessionExit } from './session-exit.ts'

let log = silentLog
let allowHostLoopback = false
const reach = (host: string, signal: AbortSignal) => reachable(host, { allowHostLoopback }, signal)
const exits = new Map<string, SessionExit>()
const tell = (message: FromForwarder): void => void process.send!(message)

function forget(id: string): void {
  exits.get(id)?.[Symbol.dispose]()
  exits.delete(id)
}

process.on('message', (message: ToForwarder) => {
  switch (message.type) {
    case 'begin':
      log = makeLog('forwarder', message.logLevel)
      allowHostLoopback = message.allowHostLoopback
      return
    case 'use': {
      const { exit } = message
      forget(exit.id)
      const made = new SessionExit(exit, reach, () => {
        if (exits.get(exit.id) !== made) return
        forget(exit.id)
        tell({ type: 'replaced', id: exit.id, path: exit.path })
      })
      exits.set(exit.id, made)
      void made.ready.then(() => tell({ type: 'used', id: exit.id, path: exit.path }))
      return
    }
    case 'allow': {
      const made = exits.get(message.id)
      if (made?.exit.path === message.path) made.allow(message.hosts)
      return tell({ type: 'allowed', call: message.call })
    }
    case 'forget':
      if (message.path === undefined || exits.get(message.id)?.exit.path === message.path) forget(message.id)
  }
})
process.on('disconnect', () => process.exit(0))
// Ctrl-C goes to the whole process group; the service decides when this program ends.
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
// An unforeseen error of one connection must not end the connections of all sessions.
process.on('uncaughtException', (err) => log.error({ err }, 'an exception in the forwarder'))
process.on('unhandledRejection', (err) => log.error({ err }, 'a rejection in the forwarder'))
