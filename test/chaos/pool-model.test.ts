// Random calls to pools of real browsers find what a small model says.
import { afterAll, beforeAll, test } from 'vitest'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { agentOf } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { SEED, walkPools } from '../support/pool-model.ts'

let cloud: OwnCloud
beforeAll(async () => void (cloud = await startCloud({ COB_WARM_BROWSERS: '0', COB_MAX_BROWSERS: '12' })))
afterAll(() => cloud[Symbol.asyncDispose]())

test(`callers of pools find what a small model says (seed ${SEED})`, { timeout: amount(180_000, 1_800_000) }, async () => {
  const crash = async (id: string) => void process.kill(agentOf(cloud, id), 'SIGKILL')
  await walkPools({ ...cloud, crash }, { steps: amount(24, 300), largest: 2, settleMs: 60_000 })
})
