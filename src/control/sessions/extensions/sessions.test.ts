// Extensions in sessions, over the fake driver: the agent gets the archives and unpacks them for real. Whether Chromium runs them: test/e2e.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { extensionIdOf, makeCrx, rsaSigner } from '../../../../test/support/crx.ts'
import { blockingExtension, extensionForm, extensionZip, MANIFEST } from '../../../../test/support/extensions.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { makeZip } from '../../../../test/support/zips.ts'
import { newId } from '../../../base/ids.ts'
import type { Extension } from './contract.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

async function upload(name?: string, zip: Uint8Array = extensionZip({ 'a.js': name ?? 'x' }), headers: Record<string, string> = {}): Promise<Extension> {
  const response = await cloud.fetch('/extensions', { method: 'POST', body: extensionForm(zip, name), headers })
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Extension
}
const folder = (session: string) => join(cloud.paths.instance(session), 'extensions')
const list = (session: string) => (existsSync(folder(session)) ? readdirSync(folder(session)).toSorted() : [])
const refusal = async (response: Response): Promise<[number, string]> => [response.status, ((await response.json()) as { message: string }).message]
const create = (extensions: unknown) => cloud.send('POST', '/browsers', { extensions })
const live = async () => ((await (await cloud.fetch('/browsers')).json()) as unknown[]).length

describe('a session', () => {
  test('gets the extensions that it names, by id or name, each in a folder of its name; their use is noted', async () => {
    const [named, unnamed] = [await upload('In.Session'), await upload(undefined, makeZip([{ name: 'top/manifest.json', content: JSON.stringify(MANIFEST) }]))]
    const { session_id: id } = await cloud.create({ extensions: [{ name: 'in.session' }, { id: unnamed.id }], timeout_seconds: 600 })
    expect(list(id)).toEqual(['In.Session', unnamed.id].toSorted())
    expect(readFileSync(join(folder(id), 'In.Session', 'a.js'), 'utf8')).toBe('In.Session')
    expect(readdirSync(join(folder(id), unnamed.id))).toEqual(['manifest.json'])
    const { last_used_at: used } = (await (await cloud.fetch(`/extensions/${named.id}/metadata`)).json()) as Extension
    expect(Date.parse(used!)).toBeGreaterThan(Date.parse(named.created_at) - 1)
  })

  test('gets one that a policy installs: its .crx has to hold, and the update.xml becomes that of the .crx beside it', async () => {
    const signer = rsaSigner()
    await upload('by.policy', blockingExtension('x', signer, '<!DOCTYPE a [<!ENTITY b "b">]><gupdate><app appid="&b;"/></gupdate>'))
    const { session_id: id } = await cloud.create({ extensions: [{ name: 'by.policy' }] })
    const path = join(folder(id), 'by.policy')
    const address = pathToFileURL(join(path, "it's & an <extension>.crx")).href.replaceAll('&', '&amp;')
    expect(readFileSync(join(path, 'update.xml'), 'utf8')).toContain(
      `<app appid="${extensionIdOf(signer)}"><updatecheck codebase="${address}" version="1.0"/></app>`,
    )
    const crx = makeCrx(extensionZip({}, { ...MANIFEST, manifest_version: 2 }), [signer])
    const changed = Buffer.from(makeCrx(extensionZip({}), [signer]))
    changed[changed.length - 30]! ^= 1
    for (const [name, file, why] of [
      ['two', crx, 'has a manifest.json with manifest_version 2'],
      ['changed', changed, 'has a signature that does not hold'],
    ] as const) {
      const files = { 'manifest.json': JSON.stringify(MANIFEST), 'update.xml': '', 'a.crx': file }
      await upload(name, makeZip(Object.entries(files).map(([called, content]) => ({ name: called, content }))))
      const [status, message] = await refusal(await create([{ name }]))
      expect([status, message]).toEqual([400, expect.stringContaining(`has a .crx file that ${why}`)])
    }
  })

  test('without extensions has none', async () => {
    for (const none of [[], null]) expect(list((await cloud.create({ extensions: none })).session_id)).toEqual([])
  })

  test('keeps an extension that is deleted', async () => {
    await upload('kept')
    const { session_id: id } = await cloud.create({ extensions: [{ name: 'kept' }] })
    expect((await cloud.fetch('/extensions/kept', { method: 'DELETE' })).status).toBe(204)
    expect(list(id)).toEqual(['kept'])
  })

  test.each<[string, unknown, string]>([
    ['an unknown id', [{ id: newId() }], 'extensions.0.id: there is no such extension'],
    ['an unknown name', [{ name: 'none' }], 'extensions.0.name: there is no such extension'],
    ['a name given as an id', [{ id: 'none' }], 'extensions.0.id: there is no such extension'],
    ['neither', [{}], 'extensions.0: must have either an id or a name'],
    ['both', [{ id: 'a', name: 'b' }], 'extensions.0: must have either an id or a name'],
    ['more than 20', Array.from({ length: 21 }, () => ({ name: 'a' })), 'extensions: '],
    ['no list', { name: 'a' }, 'extensions: '],
  ])('with %s is refused, and no browser is left', async (_, extensions, message) => {
    const before = await live()
    const [status, said] = await refusal(await create(extensions))
    expect([status, said.slice(0, message.length)]).toEqual([400, message])
    expect(await live()).toBe(before)
  })

  test('that names one twice, one with a .crx that is none, or one whose archive is gone, is refused, and no browser is left', async () => {
    const twice = await upload('twice')
    await upload('policy', extensionZip({ 'update.xml': '', 'a.crx': '' }))
    const gone = await upload('gone')
    rmSync(join(cloud.paths.objects, 'extensions', gone.id))
    const before = await live()
    expect(await refusal(await create([{ name: 'twice' }, { id: twice.id }]))).toEqual([400, 'extensions.1: is given twice'])
    expect(await refusal(await create([{ name: 'policy' }]))).toEqual([400, 'extensions.0: zip_file: has a .crx file that is not a CRX file'])
    expect(await refusal(await create([{ name: 'twice' }, { name: 'gone' }]))).toEqual([400, expect.stringMatching(/^extensions\.1: its archive is gone/)])
    expect(await live()).toBe(before)
  })

  test('whose extension turns out to be damaged when it is unpacked is refused, and no browser is left', async () => {
    await upload(
      'damaged',
      makeZip([
        { name: 'manifest.json', content: JSON.stringify(MANIFEST) },
        { name: 'a.js', content: 'x', crc: 1 },
      ]),
    )
    const before = await live()
    expect(await refusal(await create([{ name: 'damaged' }]))).toEqual([400, 'extensions.0: zip_file: is damaged at "a.js"'])
    expect(await live()).toBe(before)
  })

  test('does not get extensions of another project', async () => {
    const { id: project } = (await (await cloud.send('POST', '/org/projects', { name: 'Others' })).json()) as { id: string }
    const theirs = await upload('theirs', undefined, { 'x-kernel-project-id': project })
    for (const choice of [{ id: theirs.id }, { name: 'theirs' }]) expect((await create([choice])).status).toBe(400)
  })
})

describe('extensions for a running session', () => {
  type Part = [name: string, value: string | Uint8Array]
  const form = (parts: Part[]) => {
    const made = new FormData()
    for (const [name, value] of parts)
      made.append(name, typeof value === 'string' ? value : new Blob([new Uint8Array(value)]), ...(typeof value === 'string' ? [] : ['x.zip']))
    return made
  }
  const send = (id: string, parts: Part[]) => cloud.fetch(`/browsers/${id}/extensions`, { method: 'POST', body: form(parts) })
  const zip = extensionZip({ 'a.js': '1' })
  /** The parts of extensions by their names, as the TypeScript SDK sends them. */
  const named = (archives: Record<string, string | Uint8Array>): Part[] =>
    Object.entries(archives).flatMap(([name, archive], at): Part[] => [
      [`extensions[${at}][name]`, name],
      [`extensions[${at}][zip_file]`, archive],
    ])

  test.each<[string, Part[]]>([
    [
      'as the TypeScript SDK sends them',
      [
        ['extensions[0][name]', 'a'],
        ['extensions[0][zip_file]', zip],
        ['extensions[1][zip_file]', zip],
        ['extensions[1][name]', 'b'],
      ],
    ],
    [
      'as the Python SDK sends them',
      [
        ['extensions[][name]', 'a'],
        ['extensions[][name]', 'b'],
        ['extensions[][zip_file]', zip],
        ['extensions[][zip_file]', zip],
      ],
    ],
    [
      'as the Go SDK sends them',
      [
        ['extensions.0.name', 'a'],
        ['extensions.0.zip_file', zip],
        ['extensions.1.name', 'b'],
        ['extensions.1.zip_file', zip],
      ],
    ],
    [
      'as pairs',
      [
        ['extensions.name', 'a'],
        ['extensions.zip_file', zip],
        ['extensions.name', 'b'],
        ['extensions.zip_file', zip],
      ],
    ],
  ])('are unpacked in their folders: %s', async (_, parts) => {
    const { session_id: id } = await cloud.create()
    const response = await send(id, parts)
    expect([response.status, await response.text()]).toEqual([201, ''])
    expect(list(id)).toEqual(['a', 'b'])
    expect(readFileSync(join(folder(id), 'b', 'a.js'), 'utf8')).toBe('1')
  })

  test.each<[string, Part[], number, string]>([
    ['nothing', [], 400, 'extensions: at least one extension is required'],
    ['no name', [['extensions[0][zip_file]', zip]], 400, 'extensions[0][name]: is required'],
    ['no archive', [['extensions[0][name]', 'a']], 400, 'extensions[0][zip_file]: is required'],
    ['an archive that is text', [['extensions[0][zip_file]', 'x']], 400, 'extensions[0][zip_file]: must be a file'],
    ['a name that leads out', named({ '..': zip }), 400, 'extensions[0][name]: is reserved'],
    ['a path as a name', named({ 'a/b': zip }), 400, 'extensions[0][name]: must have 1 to 255'],
    ['an unknown part', [['extensions[0][zip]', zip]], 400, 'extensions[0][zip]: there is no such part'],
    ['one name twice', [...named({ a: zip }), ['extensions[1][name]', 'a'], ['extensions[1][zip_file]', zip]], 400, 'extensions[1][name]: is also the name'],
    ['a good one and a bad one', named({ a: zip, b: Buffer.from('x') }), 400, 'extensions[1][zip_file]: is not a zip'],
    ['a name that is in use', named({ new: zip, there: zip }), 400, 'extensions[1][name]: exists already'],
    [
      'one of manifest version 2',
      named({ a: extensionZip({}, { ...MANIFEST, manifest_version: 2 }) }),
      400,
      'extensions[0][zip_file]: has a manifest.json with manifest_version 2',
    ],
    [
      'one that a policy installs, whose .crx is none',
      named({ a: extensionZip({ 'update.xml': '', 'a.crx': '' }) }),
      400,
      'extensions[0][zip_file]: has a .crx file that is not a CRX file',
    ],
    ['one that is too large', named({ a: Buffer.alloc(50 * 1024 * 1024 + 1) }), 413, 'the body is larger than 52428800 bytes'],
    ['21 of them', Array.from({ length: 21 }, (_, at): Part => [`extensions[${at}][name]`, `a${at}`]), 400, 'extensions: at most 20 at once'],
  ])('with %s are refused, and nothing of them is left', async (_, parts, status, message) => {
    const { session_id: id } = await cloud.create()
    expect((await send(id, named({ there: zip }))).status).toBe(201)
    writeFileSync(join(folder(id), 'there', 'own.txt'), 'kept')
    const [found, said] = await refusal(await send(id, parts))
    expect([found, said.slice(0, message.length)]).toEqual([status, message])
    expect(list(id)).toEqual(['there'])
    expect(readdirSync(join(folder(id), 'there'))).toContain('own.txt')
  })

  test('of one name, sent at the same time: one of them is taken whole', async () => {
    const { session_id: id } = await cloud.create()
    const some = Array.from({ length: 5 }, (_, at) => send(id, named({ race: extensionZip({ 'a.js': String(at) }) })))
    const statuses = (await Promise.all(some)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([201, 400, 400, 400, 400])
    expect(list(id)).toEqual(['race'])
    expect(readFileSync(join(folder(id), 'race', 'a.js'), 'utf8')).toBe(String(statuses.indexOf(201)))
  })

  test('go to the session of a token, and to no other', async () => {
    const [mine, other] = [await cloud.create(), await cloud.create()]
    const token = new URL(mine.cdp_ws_url).searchParams.get('jwt')!
    const load = async (id: string) => {
      const body = form(named({ mine: zip }))
      return (await fetch(`${cloud.url}/browsers/${id}/extensions?jwt=${token}`, { method: 'POST', body })).status
    }
    expect(await load(other.session_id)).toBe(401)
    expect([list(mine.session_id), list(other.session_id)]).toEqual([[], []])
    expect(await load(mine.session_id)).toBe(201)
    expect([list(mine.session_id), list(other.session_id)]).toEqual([['mine'], []])
  })
})

test('the service has logged no error', () => expect(cloud.errors).toEqual([]))
