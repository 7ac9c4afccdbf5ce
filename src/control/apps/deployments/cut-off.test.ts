// Builds of replicas that were cut off for a time: the builds continue, and no replica ends the build that another one has started.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { deployParts, fakeApps, type Deploy } from '../../../../test/support/apps.ts'
import { sharing } from '../../../../test/support/leases.ts'
import { sleep, until } from '../../../base/wait.ts'
import type { AppSandboxes } from '../../../instances/driver.ts'
import type { Leases } from '../../../store/leases.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { host, lines, NOTICE_MS, reaches, restarted, row } from './lab.suite.ts'

/** A replica that can be cut off. Otherwise it has every duty. */
function replica(): { leases: Leases; cutOff(): void; back(hasDuties?: boolean): void } {
  const state = { isAlive: true, epoch: 1, hasDuties: true }
  const leases = Object.defineProperties(
    { ...sharing(), holds: () => state.isAlive && state.hasDuties },
    { isAlive: { get: () => state.isAlive }, epoch: { get: () => state.epoch } },
  ) as Leases
  return {
    leases,
    cutOff: () => void Object.assign(state, { isAlive: false }),
    back: (hasDuties = true) => void Object.assign(state, { isAlive: true, epoch: state.epoch + 1, hasDuties }),
  }
}
const create = async (deployments: ReturnType<typeof restarted>, what: Deploy) =>
  (await deployments.create(DEFAULT_PROJECT, deployParts(what), AbortSignal.timeout(NOTICE_MS))).id
const sandboxOf = async (id: string) => (await row(id)).sandbox_id!
const isThere = (sandbox: string) => existsSync(host.paths.appSandbox(sandbox))

/** A build that prints nothing for a while, so that it is silent when its replica is back. */
const quiet = (logs: string[]) => ({ env: { FAKE_LOGS: JSON.stringify(logs), FAKE_WAIT: '1000', ...fakeApps({ quiet: ['x'] }) } })

test.each([{ logs: ['one', 'two'] }, { logs: [] }])(
  'a build that has printed $logs.length lines goes on after its only replica was cut off',
  async ({ logs }) => {
    const { leases, cutOff, back } = replica()
    const id = await create(restarted({ leases }), quiet(logs))
    await until(
      'its lines',
      NOTICE_MS,
      async () => (await row(id)).state === 'in_progress' && isThere(await sandboxOf(id)) && (await lines(id)).length === logs.length,
    )
    const sandbox = await sandboxOf(id)
    await sleep(200) // until it has its archive
    cutOff()
    await sleep(200)
    back()
    expect(await reaches(id, 'running')).toMatchObject({ attempts: 1, sandbox_id: sandbox })
    expect(await lines(id)).toEqual(logs)
    await until('its sandbox to go', NOTICE_MS, () => !isThere(sandbox))
  },
)

test.each(['fails', 'works'])('a start that %s after another replica has begun the build again leaves the new one alone, and nothing behind', async (how) => {
  const [frozen, successor] = [replica(), replica()]
  const [begun, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { apps } = host.driver
  const start: AppSandboxes['start'] = async (spec, signal) => {
    begun.resolve()
    await gate.promise
    const instance = await apps.start(spec, signal)
    if (how === 'works') return instance
    await instance[Symbol.asyncDispose]()
    throw new Error('it does not answer')
  }
  const id = await create(restarted({ leases: frozen.leases, sandboxes: { ...apps, start } }), quiet(['one']))
  await begun.promise
  const first = await sandboxOf(id)
  frozen.cutOff()
  restarted({ leases: successor.leases })
  await until('the second attempt', NOTICE_MS, async () => (await row(id)).attempts === 2 && (await lines(id)).includes('one'))
  gate.resolve()
  frozen.back(false)
  const second = await sandboxOf(id)
  expect(await reaches(id, 'running')).toMatchObject({ attempts: 2, sandbox_id: second })
  expect(await lines(id)).toEqual(['The build was interrupted and begins again.', 'one'])
  await until('both sandboxes to go', NOTICE_MS, () => !isThere(first) && !isThere(second))
})
