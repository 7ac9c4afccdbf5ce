// Random calls to pools over the fake driver find what a small model says.
import { expect, test } from 'vitest'
import { fastCloud } from '../../../../../test/support/fast-cloud.ts'
import { amount } from '../../../../../test/support/long.ts'
import { SEED, walkPools } from '../../../../../test/support/pool-model.ts'
import type { Driver } from '../../../../instances/driver.ts'
import { fakeDriver } from '../../../../instances/fake/fake.ts'

let driver: Driver
const cloud = fastCloud({ COB_WARM_BROWSERS: '1', COB_MAX_BROWSERS: '40' }, (paths) => (driver = fakeDriver(paths)))

test(`callers of pools find what a small model says (seed ${SEED})`, { timeout: amount(90_000, 900_000) }, async () => {
  const crash = async (id: string) => await (await driver.adopt(id))?.[Symbol.asyncDispose]()
  await walkPools({ ...cloud, crash }, { steps: amount(400, 6_000), largest: 6, settleMs: 20_000 })
  expect(cloud.errors.filter(({ message }) => message !== 'a browser ended by itself')).toEqual([])
})
