// The fake driver keeps the promises of the real ones. Otherwise tests over it would prove nothing.
import { driverSuite } from '../driver.suite.ts'
import { fakeDriver } from './fake.ts'

driverSuite('fake', fakeDriver)
