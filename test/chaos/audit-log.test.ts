// Kills the service, also with its Postgres, while it writes the audit log.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { descendantsOf, killAll, nameProcess } from '../../src/base/processes.ts'
import { until } from '../../src/base/wait.ts'
import { bufferedIn } from '../support/audit-log.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'

/** The service removes the first row within half a second on an idle machine. */
const REMOVED_MS = 20_000
/** With fewer calls of each kind the test would show nothing. */
const SOME = 10
/** The limit for these calls, on a busy machine. */
const SOME_MS = 30_000

const cloud = forTests(() => startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0' }))

const buffer = (): string[] => bufferedIn(join(cloud.dataDir, 'audit')).split('\n').filter(Boolean)

/**
 * Kills the service, and with `alsoPostgres` every process of its Postgres, which has process groups of its own. It kills as soon as the service has removed a row
 * from the buffer: from then on only the database has that row.
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

/** Calls in a loop until the kill. Resolves with the answered requests and their statuses. */
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
  // No wait is needed: the service stores every entry before it answers.
  const rows = await cloud.query<{ text: string }>(`select method || ' ' || path || ' ' || status as text from audit_log`)
  const stored = new Map<string, number>()
  for (const { text } of rows) stored.set(text, (stored.get(text) ?? 0) + 1)
  expect(answered.filter((text) => stored.get(text) !== 1)).toEqual([])
})
