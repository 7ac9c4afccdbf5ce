// The fake driver keeps the promises of the real ones. Otherwise tests over it would prove nothing.
import { existsSync } from 'node:fs'
import { driverSuite } from '../driver.suite.ts'
import { fakeDriver } from './fake.ts'

driverSuite('fake', fakeDriver, (paths, id) => [paths.instance(id)].filter(existsSync))
driverSuite(
  'fake, over TLS',
  (paths) => fakeDriver(paths, { overTls: true }),
  (paths, id) => [paths.instance(id)].filter(existsSync),
)
