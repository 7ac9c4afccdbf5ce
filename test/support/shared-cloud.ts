// Lends services to test files, one file after the other. vitest's main process keeps them. Starting, ending and checking a service costs about 3 seconds of CPU time,
// and a boot of Chromium for its warm browser.
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { nameProcess, signalProcess } from '../../src/base/processes.ts'
import { callsTo, startCloud, type Cloud, type OwnCloud, type Place } from './cloud.ts'
import { endedSessions, remainders } from './leaks.ts'

/** The environment variable that tells the test processes the keeper's socket. */
const VARIABLE = 'COB_TEST_SHARED'

interface Lent extends Place {
  pid: number
  /** The log file, and the position at which this loan's part begins. */
  log: string
  from: number
}

interface Kept {
  cloud: OwnCloud
  /** The service's settings, as JSON. */
  env: string
  log: string
  isLent: boolean
}

/** vitest calls this before the first test of a run. The returned function ends all services, and throws when one of them leaves something behind. */
export default async function keep(): Promise<() => Promise<void>> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-shared-services-'))
  const services: Kept[] = []
  let started = 0

  async function start(env: string): Promise<Kept> {
    const log = join(dir, `${++started}.log`)
    appendFileSync(log, '')
    const cloud = await startCloud(JSON.parse(env) as Record<string, string>, { onLog: (piece) => appendFileSync(log, piece) })
    const kept = { cloud, env, log, isLent: true }
    services.push(kept)
    return kept
  }
  async function lend(env: string): Promise<Lent> {
    const free = services.find((kept) => kept.env === env && !kept.isLent)
    if (free) free.isLent = true
    const { cloud, log } = free ?? (await start(env))
    return { url: cloud.url, key: cloud.key, dataDir: cloud.dataDir, pid: cloud.pid(), log, from: readFileSync(log, 'utf8').length }
  }
  /** `clean` says whether the file left nothing in the service. Otherwise the service is ended, and the next file gets a new one. */
  async function takeBack(dataDir: string, clean: boolean): Promise<void> {
    const kept = services.find(({ cloud }) => cloud.dataDir === dataDir)!
    if (clean) kept.isLent = false
    else await services.splice(services.indexOf(kept), 1)[0]!.cloud[Symbol.asyncDispose]()
  }

  const server = createServer((incoming, reply) => {
    void (async () => {
      try {
        const body = await text(incoming)
        if (incoming.url === '/lend') reply.end(JSON.stringify(await lend(body)))
        else {
          const { dataDir, clean } = JSON.parse(body) as { dataDir: string; clean: boolean }
          await takeBack(dataDir, clean)
          reply.end('{}')
        }
      } catch (error) {
        reply.writeHead(500).end(String(error))
      }
    })()
  })
  const socket = join(dir, 'socket')
  server.listen(socket)
  await once(server, 'listening')
  process.env[VARIABLE] = socket
  // After Ctrl-C nothing waits for the services to end, so each gets the same signal.
  process.once('exit', () => {
    for (const { cloud } of services) {
      const service = nameProcess(cloud.pid())
      if (service) signalProcess(service, 'SIGINT')
    }
  })
  return async () => {
    server.close()
    const ends = await Promise.allSettled(services.splice(0).map(({ cloud }) => cloud[Symbol.asyncDispose]()))
    rmSync(dir, { recursive: true, force: true })
    const errors = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []))
    if (errors.length > 0) throw new Error(`shared services: ${errors.join('\n')}`)
  }
}

/**
 * A service with these settings, which other test files use before and after this one, but not at the same time. Disposing returns it, and fails when a session of
 * this file is left. Do not use it in tests that end the service or count everything that it has done.
 */
export async function shareCloud(env: Record<string, string> = {}): Promise<Cloud> {
  // The project "lean" of vitest.config.ts.
  const all = { ...(process.env.COB_TEST_LEAN && { COB_HEADLESS: 'auto' }), ...env }
  const sorted = JSON.stringify(Object.fromEntries(Object.entries(all).toSorted()))
  const { pid, log, from, ...place } = JSON.parse(await ask('/lend', sorted)) as Lent
  const calls = callsTo(place)
  const ownLog = () => readFileSync(log, 'utf8').slice(from)
  const endedBefore = await endedSessions(calls).catch(async (error: unknown) => {
    await ask('/back', JSON.stringify({ dataDir: place.dataDir, clean: false }))
    throw error
  })
  return {
    ...calls,
    pid: () => pid,
    log: ownLog,
    async [Symbol.asyncDispose]() {
      // An error also means that the service is not clean.
      const left = await remainders(calls, endedBefore).catch((error: unknown) => [String(error)])
      const back = ask('/back', JSON.stringify({ dataDir: place.dataDir, clean: left.length === 0 }))
      await back.catch((error: unknown) => left.push(String(error)))
      if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}\n--- log ---\n${ownLog().slice(-3000)}`)
    },
  }
}

/** Calls the keeper. @throws with the keeper's error text when the call fails */
async function ask(path: string, body: string): Promise<string> {
  const asked = request({ socketPath: process.env[VARIABLE], path, method: 'POST' })
  asked.end(body)
  const [reply] = (await once(asked, 'response')) as [IncomingMessage]
  const answer = await text(reply)
  if (reply.statusCode !== 200) throw new Error(answer)
  return answer
}
