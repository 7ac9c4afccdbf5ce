// Widely used releases of the published Python SDK, sync and async: each release makes every call of a session.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'
import { libraryOf, RELEASES, runPython } from '../support/python.ts'

/** All path prefixes that a caller can route directly to `base_url`; no release routes all of them by default. */
const ALL_ROUTED = 'curl,telemetry/stream,computer,playwright,process,fs,logs,replays'

const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  for (let i = 0; i < 2; i++) await cloud.client.browsers.create({ tags: { kept: 'yes' }, headless: true, timeout_seconds: 600 })
})

/** Runs the Python program with one release of the SDK. */
const run = (release: string, mode: 'sync' | 'async', env = {}) =>
  runPython(cloud, release, ['session.py', mode, `http://host.cob.internal:${new URL(cloud.url).port}/health`], env)

describe.concurrent.each(RELEASES)('kernel %s for Python', (release) => {
  test('gets answers to every call of a session, and can still use its key for other calls', async () => void (await run(release, 'sync')))

  test('gets answers with the token alone if it sends all calls to base_url, async', async () =>
    void (await run(release, 'async', { KERNEL_BROWSER_ROUTING_SUBRESOURCES: ALL_ROUTED })))
})

describe('the newest release', () => {
  const newest = RELEASES.at(-1)!

  test('has exactly the calls of src/control/service/system/sdk-operations.json', async () => {
    const printed = await runPython(cloud, newest, ['operations.py', join(libraryOf(newest), 'kernel')])
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
    expect(await runPython(cloud, newest, ['-c', program])).toBe("b'hello'\nb'hello'\nAttempted to send an sync request with an AsyncClient instance.\n")
  })
})
