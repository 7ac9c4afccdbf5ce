// One service whose fake instances are in the fake host of its data directory. With COB_FAKE_HOST_TLS=1 it reaches them over TCP and TLS.
import { readConfig } from '../../../src/base/config.ts'
import { serve } from '../../../src/cli/serve.ts'
import { fakeHostDriver } from './driver.ts'

const overTls = process.env.COB_FAKE_HOST_TLS === '1'
await serve(readConfig({ ...process.env, COB_DRIVER: 'fake' }), async (_config, paths, _scope, _log, replica) => fakeHostDriver(paths, replica, overTls))
