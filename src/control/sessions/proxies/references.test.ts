// What the options of a browser say about its proxy becomes one fact, and the answer shows it in both forms.
import { expect, test } from 'vitest'
import { OPTIONS } from '../browsers/options/contract.ts'
import type { Place } from '../browsers/options/option/contract.ts'
import { optionRules } from '../browsers/options/rules.ts'
import { CreateBrowser, UpdateBrowser } from '../browsers/contract.ts'
import { proxyNaming } from './references.ts'

const PLACE: Place = { region: 'us-east', memory: '2GiB', memoryMb: 4096 }
const rules = optionRules(OPTIONS)
const nameProxy = proxyNaming({ idOf: async (project, by, field) => `${project}/${field}/${'id' in by ? by.id : by.name}` })

test.each([
  [{}, undefined],
  [{ proxy_id: '' }, undefined],
  [{ proxy: { mode: 'direct' } }, undefined],
  [{ proxy: { mode: 'default' } }, undefined],
  [{ proxy_id: 'a' }, 'p/proxy_id/a'],
  [{ proxy: { id: 'a' } }, 'p/proxy.id/a'],
  [{ proxy: { name: 'a' } }, 'p/proxy.name/a'],
])('a create with %j', async (given, id) => {
  const wanted = await nameProxy('p', CreateBrowser.parse({ timeout_seconds: 77, ...given }))
  expect(wanted.timeout_seconds).toBe(77)
  const stored = rules.stored(wanted)
  expect([stored.proxy_id, 'proxy' in stored]).toEqual([id, false])
  const { proxy_id, proxy } = rules.shown(stored, PLACE)
  expect([proxy_id, proxy]).toEqual([id, id === undefined ? undefined : { id }])
})

test.each([
  [{}, []],
  [{ disable_default_proxy: true }, []],
  [{ proxy_id: '' }, [{ proxy_id: undefined }]],
  [{ proxy: { mode: 'direct' } }, [{ proxy_id: undefined }]],
  [{ proxy_id: 'a' }, [{ proxy_id: 'p/proxy_id/a' }]],
  [{ proxy: { name: 'a' } }, [{ proxy_id: 'p/proxy.name/a' }]],
])('an update with %j', async (given, stored) => {
  const changes = rules.changes(await nameProxy('p', UpdateBrowser.parse(given)), rules.stored(CreateBrowser.parse({})))
  expect(changes.flatMap((change) => change.stored ?? [])).toEqual(stored)
})
