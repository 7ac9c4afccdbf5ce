// Calls that the newest SDK has and this version of Cob lacks: the answer to a caller, and their list in docs/missing-operations.md.
import Kernel, { NotFoundError } from '@onkernel/sdk'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { PACKAGE_DIR } from '../../../base/paths.ts'
import { contracts } from '../../modules.ts'
import { SESSION_PATH } from '../../sessions/browsers/contract.ts'
import { missingFrom, SDK } from './missing.ts'

const missing = missingFrom(contracts)
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const answer = async (method: string, path: string) => {
  const response = await fetch(cloud.url + path.replaceAll(/\{\w+\}/g, 'x'), {
    method,
    headers: { authorization: `Bearer ${cloud.key}` },
    signal: AbortSignal.timeout(20_000),
  })
  const text = await response.text()
  return {
    status: response.status,
    code: text.startsWith('{') ? (JSON.parse(text) as { code?: string }).code : undefined,
    isNotBuilt: text.includes('not built yet'),
    text,
  }
}

// After a change of the routes or of the SDK: vitest run missing -u
test('docs/missing-operations.md lists exactly the calls that no route answers', async () => {
  const groups = Map.groupBy(missing, ({ name }) => name.split('.')[0]!)
  const rows = [...groups]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .flatMap(([, operations]) => operations.map(({ name, method, path }) => `| \`${name}\` | \`${method} ${path}\` |`))
  const page = [
    '# Operations that are missing',
    '',
    `The newest Python SDK (${SDK.release}) has ${SDK.operations.length} operations. This version of Cob does not have ${missing.length} of them yet. They answer 404 with the code \`not_found\` and their name; SDKs do not repeat such a request.`,
    'A test writes this list and compares it with the routes of the service.',
    '',
    '| Operation | Request |',
    '|---|---|',
    ...rows,
    '',
    'Options that are not built answer 400 and name the option: [Clients](clients.md#what-to-know).',
    '',
  ].join('\n')
  await expect(page).toMatchFileSnapshot(join(PACKAGE_DIR, 'docs/missing-operations.md'))
})

test('a missing call is refused by its name, with a status that SDKs do not repeat', async () => {
  for (const { name, method, path } of missing) {
    const addresses = [path, ...(path.startsWith('/browsers/') ? [path.replace('/browsers', SESSION_PATH)] : [])]
    for (const address of addresses)
      expect(await answer(method, address)).toMatchObject({
        status: 404,
        code: 'not_found',
        text: expect.stringContaining(`${name} (${method} ${path}) is not built yet in this version of Cob`),
      })
  }
  let requests = 0
  const client = new Kernel({
    apiKey: cloud.key,
    baseURL: cloud.url,
    maxRetries: 2,
    fetch: (...given) => {
      requests++
      return fetch(...given)
    },
  })
  await expect(client.post('/search', { body: { query: 'x' } })).rejects.toBeInstanceOf(NotFoundError)
  expect(requests).toBe(1)
})

test('no other path is', async () => {
  const names = new Set(missing.map(({ name }) => name))
  const wrong: string[] = []
  for (const { method, path } of SDK.operations.filter((one) => !names.has(one.name))) {
    if ((await answer(method, path)).isNotBuilt) wrong.push(`${method} ${path}`)
  }
  expect(wrong).toEqual([])
  for (const [method, path] of [
    ['PUT', '/search'],
    ['GET', '/search/x/y'],
    ['GET', '/nothing'],
    ['POST', '/vaults/x'],
  ] as const)
    expect([path, (await answer(method, path)).text]).toEqual([path, expect.stringContaining('there is no ')])
})
