// The driver of replicas whose fake instances run in a fake host. As with containers, each replica watches its instances through lifelines.
import { silentLog } from '../../../src/base/log.ts'
import type { DataPaths } from '../../../src/base/paths.ts'
import { resultWithin } from '../../../src/base/wait.ts'
import { fetchFrom } from '../../../src/http/endpoint.ts'
import { makeAgentKeys } from '../../../src/instances/agent-keys.ts'
import type { Driver, Exit, Instance } from '../../../src/instances/driver.ts'
import { fakeApps } from '../../../src/instances/fake/apps.ts'
import { watchAgent, type Lifeline } from '../../../src/instances/lifeline.ts'
import { fakeHostSocket, type Kept, type Wanted } from './contract.ts'

const CALL_MS = 30_000
/** The same limit as for containers. */
const KNOWN_MS = 2_000

/** `overTls`: agents are reached over TCP and TLS, with new keys for each start. */
export function fakeHostDriver(paths: DataPaths, replica: string, overTls: boolean): Driver {
  const closing = new AbortController()
  const fakeHost = { socketPath: fakeHostSocket(paths.root) }
  async function ask<T>(method: string, id: string, body?: Wanted): Promise<T | undefined> {
    const response = await fetchFrom(fakeHost, { method, path: `/${id}`, ...(body && { body: JSON.stringify(body) }) }, AbortSignal.timeout(CALL_MS))
    const text = (await response.setEncoding('utf8').toArray()).join('')
    if (response.statusCode === 404) return undefined
    if (response.statusCode !== 200) throw new Error(`the fake host answered ${response.statusCode}: ${text}`)
    return JSON.parse(text) as T
  }

  function watch({ id, agent }: Kept): Instance & { lifeline: Lifeline } {
    const exit = Promise.withResolvers<Exit>()
    const stop = new AbortController()
    let isWatched = true
    const lifeline = watchAgent(agent, silentLog, AbortSignal.any([stop.signal, closing.signal]))
    void lifeline.ended.then((ended) => isWatched && !closing.signal.aborted && exit.resolve(ended))
    const unwatch = () => {
      isWatched = false
      stop.abort(new Error('it is not watched any more'))
    }
    return {
      id,
      agent,
      lifeline,
      exited: exit.promise,
      unwatch,
      kill() {},
      async [Symbol.asyncDispose]() {
        unwatch()
        await ask('DELETE', id)
        exit.resolve({ reason: 'ended' })
      },
    }
  }

  return {
    apps: fakeApps(paths, replica),
    async start({ id }, signal) {
      signal.throwIfAborted()
      const keys = overTls ? (await makeAgentKeys()).server : undefined
      const instance = watch((await ask<Kept>('POST', '', { id, replica, ...(keys && { keys }) }))!)
      await instance.lifeline.ready
      return instance
    },
    found: async () => (await ask<Kept[]>('GET', ''))!,
    async adopt(id) {
      const kept = await ask<Kept>('GET', id)
      if (!kept) return undefined
      const instance = watch(kept)
      await resultWithin(KNOWN_MS, instance.lifeline.ready).catch(() => {})
      return instance
    },
    loadsPages: false,
    relieve: async () => undefined,
    async [Symbol.asyncDispose]() {
      closing.abort(new Error('the service stops'))
    },
  }
}
