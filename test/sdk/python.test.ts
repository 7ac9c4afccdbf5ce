// Widely used releases of the published Python SDK, sync and async: each makes every call below a session.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'

const PYTHON = join(PACKAGE_DIR, '.cob/python')
const RELEASES = readFileSync(join(PACKAGE_DIR, 'test/data/python/releases.txt'), 'utf8').trim().split('\n')
/** All path prefixes that a caller can configure to be sent directly to `base_url`; no release sends all of them by default. */
const ALL_ROUTED = 'curl,telemetry/stream,computer,playwright,process,fs,logs,replays'
const PROGRAM_MS = 100_000

let cloud: Cloud
beforeAll(async () => {
  cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  for (let i = 0; i < 2; i++) await cloud.client.browsers.create({ tags: { kept: 'yes' }, headless: true, timeout_seconds: 600 })
})
afterAll(() => cloud[Symbol.asyncDispose]())

/** Runs the program with one release. @throws with its output when it fails */
async function run(release: string, mode: 'sync' | 'async', env: Record<string, string> = {}): Promise<void> {
  const library = join(PYTHON, release)
  if (!existsSync(library)) throw new Error(`${library} is missing: run COB_SETUP_TEST=1 script/setup`)
  await promisify(execFile)(
    join(PYTHON, 'venv/bin/python'),
    [join(PACKAGE_DIR, 'test/data/python/session.py'), mode, `http://host.cob.internal:${new URL(cloud.url).port}/health`],
    {
      env: { PATH: process.env.PATH, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1', KERNEL_API_KEY: cloud.key, KERNEL_BASE_URL: cloud.url, ...env },
      timeout: PROGRAM_MS,
    },
  )
}

describe.concurrent.each(RELEASES)('kernel %s for Python', (release) => {
  test('gets answers to every call of a session, and can still use its key for other calls', () => run(release, 'sync'))

  test('gets answers with the token alone if it sends all calls to base_url, async', () =>
    run(release, 'async', { KERNEL_BROWSER_ROUTING_SUBRESOURCES: ALL_ROUTED }))
})

describe('the newest release', () => {
  const library = join(PYTHON, RELEASES.at(-1)!)
  const python = async (args: string[]) =>
    (
      await promisify(execFile)(join(PYTHON, 'venv/bin/python'), args, {
        env: { PATH: process.env.PATH, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1', KERNEL_API_KEY: cloud.key, KERNEL_BASE_URL: cloud.url },
        timeout: PROGRAM_MS,
      })
    ).stdout

  test('has exactly the calls of src/control/service/system/sdk-operations.json', async () => {
    const printed = await python([join(PACKAGE_DIR, 'test/data/python/operations.py'), join(library, 'kernel')])
    expect(printed).toBe(readFileSync(join(PACKAGE_DIR, 'src/control/service/system/sdk-operations.json'), 'utf8'))
  })

  test('writes files from bytes and from an async generator; a BytesIO it refuses itself when it is async, before it sends anything (docs/clients.md)', async () => {
    const program = `
import asyncio, io
from kernel import APIConnectionError, AsyncKernel
async def pieces():
    yield b'hel'
    yield b'lo'
async def main():
    async with AsyncKernel(max_retries=0) as kernel:
        session = await kernel.browsers.create(headless=True, timeout_seconds=120)
        for contents in (b'hello', pieces()):
            await kernel.browsers.fs.write_file(session.session_id, contents, path='/tmp/written')
            print(await (await kernel.browsers.fs.read_file(session.session_id, path='/tmp/written')).read())
        try:
            await kernel.browsers.fs.write_file(session.session_id, io.BytesIO(b'hello'), path='/tmp/written')
        except APIConnectionError as error:
            print(error.__cause__)
        await kernel.browsers.delete_by_id(session.session_id)
asyncio.run(main())`
    expect(await python(['-c', program])).toBe("b'hello'\nb'hello'\nAttempted to send an sync request with an AsyncClient instance.\n")
  })
})
