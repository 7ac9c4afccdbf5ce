// Profiles with several replicas: one replica saves a profile, another one loads it.
import { describe, expect, test } from 'vitest'
import { twoReplicas, type FastReplica } from '../../../../test/support/two-replicas.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import type { Version } from './contract.ts'

/** A takeover takes up to five seconds. */
const NOTICE_MS = 20_000

describe('with several replicas', { timeout: 60_000 }, () => {
  const { shared, one, two, another } = twoReplicas({ COB_WARM_BROWSERS: '1', COB_WARM_BROWSERS_MAX: '1' })

  const text = async (at: FastReplica, id: string) =>
    ((await (await at.fetch(`/browsers/${id}/computer/clipboard/read`, { method: 'POST' })).json()) as { text: string }).text
  const write = (at: FastReplica, id: string, words: string) => at.send('POST', `/browsers/${id}/computer/clipboard/write`, { text: words })

  test('a create at one waits for the save of a session that another one has made, and a third one has deleted', async () => {
    for (const [maker, user] of [
      [one, two],
      [two, one],
    ] as const) {
      const name = newId().slice(1)
      await maker.send('POST', '/profiles', { name })
      const { session_id: id } = await maker.create({ profile: { name, save_changes: true } })
      await write(user, id, 'slow over there')
      expect((await user.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
      const { session_id: next } = await user.create({ profile: { name } })
      expect(await text(maker, next)).toBe('slow over there')
      await user.fetch(`/browsers/${next}`, { method: 'DELETE' })
    }
  })

  test('of two profiles that are given to a session at different replicas at once, it gets one', async () => {
    const names = [newId().slice(1), newId().slice(1)]
    for (const name of names) await one.send('POST', '/profiles', { name })
    for (let round = 0; round < 5; round++) {
      const { session_id: id } = await one.create()
      const answers = await Promise.all([one, two].map((at, index) => at.send('PATCH', `/browsers/${id}`, { profile: { name: names[index] } })))
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
      await one.fetch(`/browsers/${id}`, { method: 'DELETE' })
    }
  })

  test('a session of a replica that has stopped is saved by the one that takes it over, also if a profile was attached elsewhere', async () => {
    const three = await another()
    const name = newId().slice(1)
    await one.send('POST', '/profiles', { name })
    const { session_id: id } = await three.create({ timeout_seconds: 300, viewport: { width: 3000, height: 2000 } }) // no ready browser of another replica has this size
    expect((await two.send('PATCH', `/browsers/${id}`, { profile: { name, save_changes: true } })).status).toBe(200)
    await write(one, id, 'taken over')
    const watcher = async () => (await shared.query<{ replica: string }>('select replica from browsers where id = $1', [id]))[0]!.replica
    const before = await watcher()
    await three.stop()
    await until('a takeover', NOTICE_MS, async () => (await watcher()) !== before, { everyMs: 50 })
    expect((await one.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
    const { session_id: next } = await two.create({ profile: { name } })
    expect(await text(two, next)).toBe('taken over')
    expect(((await (await two.fetch(`/profiles/${name}/versions`)).json()) as Version[]).map(({ session_id }) => session_id)).toEqual([id])
    await two.fetch(`/browsers/${next}`, { method: 'DELETE' })
  })
})
