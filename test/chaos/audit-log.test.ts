// The audit log of a service that is killed.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { descendantsOf, killAll, nameProcess } from '../../src/base/processes.ts'
import { until } from '../../src/base/wait.ts'
import { bufferedIn } from '../support/audit-log.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'

/** It takes half a second on an idle machine. */
const REMOVED_MS = 20_000
/** Fewer calls of a kind would show nothing. */
const SOME = 10
/** Time for so many, on a busy machine. */
const SOME_MS = 30_000

let cloud: OwnCloud
beforeAll(async () => {
  cloud = await startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

/** The rows of the buffer. */
const buffer = (): string[] => bufferedIn(join(cloud.dataDir, 'audit')).split('\n').filter(Boolean)

/**
 * Ends the service, and with it every process of its Postgres, which has process groups of its own. This is done as soon as rows have been removed from the buffer: they are nowhere but
 * in the database then.
 */
async function kill(alsoPostgres: boolean): Promise<void> {
  const postmaster = Number(readFileSync(join(cloud.dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0])
  const postgres = alsoPostgres ? [postmaster, ...descendantsOf(postmaster)].map(nameProcess).filter((name) => name !== undefined) : []
  let last = buffer()
  const isOneRemoved = () => {
    const now = buffer()
    const [first] = last
    last = now
    return first !== undefined && !now.includes(first)
  }
  await until('rows to be removed', REMOVED_MS, isOneRemoved, { everyMs: 1 })
  await Promise.all([cloud.kill(), killAll(postgres)])
}

/** Calls one after the other until the kill. Resolves with the requests that were answered, with their status. */
async function callUntilKilled(mark: string, alsoPostgres: boolean): Promise<string[]> {
  const answered: string[] = []
  const callers = [0, 1, 2, 3].map(async (caller) => {
    for (let i = 0; i < 10_000; i++) {
      const path = `/org/projects/${mark}-${caller}-${i}`
      const method = i % 2 ? 'DELETE' : 'GET'
      try {
        const response = await cloud.fetch(path, { method })
        await response.text()
        answered.push(`${method} ${path} ${response.status}`)
      } catch {
        return
      }
    }
  })
  const answeredTo = (method: string) => answered.filter((text) => text.startsWith(method)).length
  await until('some calls', SOME_MS, () => answeredTo('GET') > SOME && answeredTo('DELETE') > SOME)
  await kill(alsoPostgres)
  await Promise.all(callers)
  return answered
}

const kills: [who: string, alsoPostgres: boolean][] = [
  ['the service', false],
  ['the service and its Postgres', true],
]
test.each(kills)('kill -9 of %s loses no request that was answered, and no result', async (who, alsoPostgres) => {
  const answered = await callUntilKilled(who.replaceAll(' ', '-'), alsoPostgres)
  await cloud.start()
  // Nobody waits: it was there before the service answered.
  const rows = await cloud.query<{ text: string }>(`select method || ' ' || path || ' ' || status as text from audit_log`)
  const stored = new Map<string, number>()
  for (const { text } of rows) stored.set(text, (stored.get(text) ?? 0) + 1)
  expect(answered.filter((text) => stored.get(text) !== 1)).toEqual([])
})
