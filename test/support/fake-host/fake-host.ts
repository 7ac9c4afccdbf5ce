// Starts the fake host of a data directory. Replicas use it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../../src/base/paths.ts'
import { within } from '../../../src/base/wait.ts'
import { fetchFrom } from '../../../src/http/endpoint.ts'
import { fakeHostSocket, type Kept } from './contract.ts'

const START_MS = 60_000
const HERE = 'test/support/fake-host'

/** The program of a replica whose instances are in the fake host. */
export const FAKE_HOST_REPLICA = `${HERE}/replica.ts`

export interface FakeHost extends AsyncDisposable {
  pid: number
  /** The ids of the running instances. */
  running(): Promise<string[]>
}

/** Starts the fake host. Disposing ends it with all its instances. */
export async function startFakeHost(root: string): Promise<FakeHost> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(PACKAGE_DIR, HERE, 'main.ts'), root], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const ended = exited.then(() => Promise.reject(new Error('the fake host ended')))
  ended.catch(() => {})
  await within('the fake host', START_MS, Promise.race([once(child.stdout, 'data'), ended]))
  return {
    pid: child.pid!,
    async running() {
      const response = await fetchFrom({ socketPath: fakeHostSocket(root) }, { method: 'GET', path: '/' }, AbortSignal.timeout(START_MS))
      return (JSON.parse((await response.setEncoding('utf8').toArray()).join('')) as Kept[]).map(({ id }) => id)
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await exited
    },
  }
}
