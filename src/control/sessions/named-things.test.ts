// Common rules of pools, profiles, proxies and extensions: lists, how one is found, and that a project that has one cannot be deleted.
import { describe, expect, test } from 'vitest'
import { extensionForm, extensionZip } from '../../../test/support/extensions.ts'
import { fastCloud } from '../../../test/support/fast-cloud.ts'
import { newId } from '../../base/ids.ts'
import { until } from '../../base/wait.ts'

/** The browser of a deleted pool ends within this time. */
const ENDED_MS = 20_000

const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_MAX_BROWSERS: '20' })

interface Thing {
  id: string
  name: string
}

const json = (body: object) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
/** The body of a create. */
const BODIES: [path: string, held: string, of: (name: string) => { headers?: object; body: string | FormData }][] = [
  ['/browser_pools', '1 browser pools', (name) => json({ name, size: 1 })],
  ['/profiles', '1 profiles', (name) => json({ name })],
  ['/proxies', '1 proxies', (name) => json({ name, type: 'custom', config: { host: 'proxy.test', port: 1 } })],
  ['/extensions', '1 extensions', (name) => ({ body: extensionForm(extensionZip({ 'a.js': name }), name) })],
]

describe.each(BODIES)('%s', (path, held, bodyOf) => {
  const create = async (name: string, project: Record<string, string> = {}): Promise<Thing> => {
    const { headers, body } = bodyOf(name)
    const response = await cloud.fetch(path, { method: 'POST', body, headers: { ...headers, ...project } })
    expect(response.ok).toBe(true)
    return (await response.json()) as Thing
  }

  test('are listed newest first, in pages, by a whole name in any case, a part of it, or an id', async () => {
    const word = `Listed-${newId()}`
    const made: Thing[] = []
    for (const end of ['one', 'two', 'three']) made.unshift(await create(`${word}-${end}`))
    const ids = made.map(({ id }) => id)
    const list = async (query: string) => {
      const response = await cloud.fetch(`${path}?${query}`)
      expect(response.status).toBe(200)
      return { ids: ((await response.json()) as Thing[]).map(({ id }) => id), next: response.headers.get('x-next-offset') }
    }
    expect(await list('limit=100')).toMatchObject({ ids: expect.arrayContaining(ids) as string[] })
    expect(await list(`query=${word.toLowerCase()}&limit=2`)).toMatchObject({ ids: ids.slice(0, 2), next: '2' })
    expect(await list(`query=${word}&limit=2&offset=2`)).toMatchObject({ ids: ids.slice(2), next: '0' })
    expect(await list(`name=${word.toUpperCase()}-TWO`)).toMatchObject({ ids: [ids[1]] })
    expect(await list(`query=${ids[2]}`)).toMatchObject({ ids: [ids[2]] })
    for (const none of [`name=${word}`, `query=${ids[2]!.slice(1)}`]) expect(await list(none)).toMatchObject({ ids: [] })
    for (const wrong of ['limit=0', 'limit=x', 'offset=-1', 'other=1']) expect([wrong, (await cloud.fetch(`${path}?${wrong}`)).status]).toEqual([wrong, 400])
    for (const { id } of made) await remove(id)
  })

  const remove = async (id: string, project: Record<string, string> = {}) =>
    expect((await cloud.fetch(`${path}/${id}`, { method: 'DELETE', headers: project })).status).toBe(204)

  test('keep their project from being deleted', async () => {
    const { id: project } = (await (await cloud.send('POST', '/org/projects', { name: newId().slice(1) })).json()) as { id: string }
    const within = { 'x-kernel-project-id': project }
    const { id } = await create('mine', within)
    const drop = () => cloud.fetch(`/org/projects/${project}`, { method: 'DELETE' })
    const refused = await drop()
    expect([refused.status, await refused.json()]).toEqual([
      409,
      expect.objectContaining({ code: 'project_not_empty', message: expect.stringContaining(held) as string }),
    ])
    await remove(id, within)
    await until('the project to go', ENDED_MS, async () => (await drop()).status === 204)
  })
})
