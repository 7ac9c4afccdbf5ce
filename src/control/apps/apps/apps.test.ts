// The list of apps: one row per name and version, pointing at the deployment that runs under it.
import { beforeAll, describe, expect, test } from 'vitest'
import { deploy, deployed, fakeApps, reaches } from '../../../../test/support/apps.ts'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

interface App {
  id: string
  app_name: string
  version: string
  deployment: string
}
const list = async (query: string): Promise<App[]> => {
  const rows = (await (await cloud.fetch(`/apps?${query}`)).json()) as App[]
  conforms('AppListResponse', rows, true)
  return rows
}

describe('a name filter of a list', () => {
  let deployment: string
  beforeAll(async () => {
    deployment = (await deployed(cloud, { env: fakeApps({ 'Café-Ж': ['Öffne'], 'Zweite-Ä': ['x'] }) })).id
    await cloud.send('POST', '/invocations', { app_name: 'Café-Ж', action_name: 'Öffne', version: 'latest' })
  })
  const found = async (path: string) => ((await (await cloud.fetch(encodeURI(path))).json()) as unknown[]).length

  test.each(['Café-Ж', 'CAFÉ-ж', 'cafe-ж', 'cafe\u0301-Ж'])('matches in another case and without accents: %s', async (name) => {
    expect(await Promise.all([`/apps?app_name=${name}`, `/deployments?app_name=${name}`, `/invocations?app_name=${name}`].map(found))).toEqual([1, 1, 1])
  })

  test('does not match names with other differences, or a part of a name', async () => {
    expect(await Promise.all(['/apps?app_name=cafe', '/deployments?app_name=cafe', '/invocations?app_name=cafe-г'].map(found))).toEqual([0, 0, 0])
    expect(await Promise.all(['/invocations?action_name=offne', '/invocations?action_name=offn'].map(found))).toEqual([1, 0])
  })

  test('with a part of a name finds every app, in any case, also if it is not the first of its deployment', async () => {
    const paths = (part: string) => [`/apps?query=${part}`, `/deployments?query=${part}`, `/invocations?query=${part}`]
    expect(await Promise.all(paths('FÉ-ж').map(found))).toEqual([1, 1, 1])
    expect(await Promise.all(paths('öFF').map(found))).toEqual([0, 0, 1])
    expect(await Promise.all(paths('weite-ä').map(found))).toEqual([1, 1, 0])
    const [row] = (await (await cloud.fetch('/deployments?query=WEITE-')).json()) as { id: string }[]
    expect(row?.id).toBe(deployment)
  })
})

describe('the list of apps', () => {
  test('contains each app of a deployment with its actions, and the names of its variables without values', async () => {
    const { id } = await deployed(cloud, { env: { SECRET: 'value', ...fakeApps({ shop: ['buy', 'look'], till: ['open'] }) }, version: '1.0' })
    const [shop] = await list('app_name=shop')
    expect(shop).toEqual({
      id: expect.any(String) as string,
      app_name: 'shop',
      version: '1.0',
      deployment: id,
      region: 'aws.us-east-1a',
      actions: [
        { name: 'buy', input_schema: null, output_schema: null },
        { name: 'look', input_schema: null, output_schema: null },
      ],
      env_vars: { SECRET: '', FAKE_APPS: '' },
    })
    expect((await list('app_name=till')).map(({ deployment }) => deployment)).toEqual([id])
  })

  test('has one row per name and version, which keeps its id when the app is deployed again', async () => {
    const env = fakeApps({ again: ['x'] })
    await deployed(cloud, { env })
    const [before] = await list('app_name=again&version=latest')
    const { id } = await deployed(cloud, { env })
    expect(await list('app_name=again&version=latest')).toMatchObject([{ id: before!.id, deployment: id }])
  })

  test('filters by version and by part of a name, and is paged', async () => {
    for (const version of ['a', 'b', 'c']) await deployed(cloud, { env: fakeApps({ 'Paged-App': ['x'] }), version })
    const versions = async (query: string) => (await list(query)).map(({ version }) => version)
    expect(await versions('app_name=Paged-App')).toEqual(['c', 'b', 'a'])
    expect(await versions('query=paged-')).toEqual(['c', 'b', 'a'])
    expect(await versions('app_name=Paged-App&version=b')).toEqual(['b'])
    expect(await versions('app_name=paged')).toEqual([])
    const response = await cloud.fetch('/apps?app_name=Paged-App&limit=2')
    expect([response.headers.get('x-has-more'), response.headers.get('x-next-offset')]).toEqual(['true', '2'])
    expect(await versions('app_name=Paged-App&limit=2&offset=2')).toEqual(['a'])
  })

  test('contains nothing from failed builds', async () => {
    const { id } = await deploy(cloud, { env: { FAKE_FAIL: 'no', ...fakeApps({ never: ['x'] }) } })
    await reaches(cloud, id, 'failed')
    expect(await list('app_name=never')).toEqual([])
  })

  test.each(['limit=0', 'offset=-1', 'colour=red'])('refuses %s, and the error names it', async (query) => {
    expect((await cloud.fetch(`/apps?${query}`)).status).toBe(400)
  })
})
