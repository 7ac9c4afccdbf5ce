// Which rows count as seats when replicas count together.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import { moveBrowser } from './lifecycle.ts'
import { countSeats, insertStarting } from './rows.ts'
import { db, HOST, owner } from './fleet.suite.ts'

const watched = { scope: HOST, replica: 'none' }
const seats = () => countSeats(db, { scope: HOST })

test('a warm browser takes no seat, also while it boots and while it is ended', async () => {
  const id = newId()
  await insertStarting(db, id, watched, 'usual')
  expect(await seats()).toBe(0)
  await moveBrowser(db, id, 'warm', null)
  expect(await seats()).toBe(0)
  await moveBrowser(db, id, 'stopping', 'surplus')
  expect(await seats()).toBe(0)
})

test('a session takes one from its boot, or from its claim of a warm browser, until it has ended', async () => {
  const [booted, claimed] = [newId(), newId()]
  await insertStarting(db, booted, watched, null, owner())
  expect(await seats()).toBe(1)
  await insertStarting(db, claimed, watched, 'usual')
  await moveBrowser(db, claimed, 'warm', null)
  await moveBrowser(db, claimed, 'running', 'claimed warm', { created_at: sql`now()` })
  expect(await seats()).toBe(2)
  for (const id of [booted, claimed]) await moveBrowser(db, id, 'stopping', 'deleted')
  expect(await seats()).toBe(2)
  for (const id of [booted, claimed]) await moveBrowser(db, id, 'deleted', 'deleted')
  expect(await seats()).toBe(0)
})
