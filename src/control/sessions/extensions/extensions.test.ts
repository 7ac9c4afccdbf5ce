// Extensions as their callers see them, over the fake driver.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { extensionForm, extensionZip, MANIFEST } from '../../../../test/support/extensions.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { until } from '../../../base/wait.ts'
import { openDb } from '../../../store/db.ts'
import { fileObjects } from '../../../store/objects-files.ts'
import { findMissing, removeUnnamed } from '../../../store/sweep.ts'
import { objectOwners } from '../../modules.ts'
import type { Extension } from './contract.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const objects = (): string[] => {
  const folder = join(cloud.paths.objects, 'extensions')
  return existsSync(folder) ? readdirSync(folder) : []
}
const post = (zip: Uint8Array, name?: string) => cloud.fetch('/extensions', { method: 'POST', body: extensionForm(zip, name) })
async function upload(name?: string, zip: Uint8Array = extensionZip({ 'a.js': newId() })): Promise<Extension> {
  const response = await post(zip, name)
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Extension
}
const get = async (path: string) => {
  const response = await cloud.fetch(path)
  return { status: response.status, headers: response.headers, body: (await response.json()) as never as Extension & Extension[] & { message: string } }
}
const remove = async (idOrName: string) => (await cloud.fetch(`/extensions/${idOrName}`, { method: 'DELETE' })).status
async function refusal(form: FormData): Promise<[number, string]> {
  const before = objects()
  const response = await cloud.fetch('/extensions', { method: 'POST', body: form })
  const { message } = (await response.json()) as { message: string }
  expect(objects()).toEqual(before)
  return [response.status, message]
}

describe('an extension', () => {
  test('that is uploaded is found by its id and by its name in any case, and has the checksum of its exact bytes', async () => {
    const zip = extensionZip({ 'a.js': '1' })
    const made = await upload('My.Ext-1_a', zip)
    conforms('ExtensionUploadResponse', made)
    expect(made).toMatchObject({ name: 'My.Ext-1_a', size_bytes: zip.length, checksum: createHash('sha256').update(zip).digest('hex'), last_used_at: null })
    for (const named of [made.id, 'My.Ext-1_a', 'my.ext-1_A']) expect((await get(`/extensions/${named}/metadata`)).body).toEqual(made)
    conforms('ExtensionGetResponse', (await get(`/extensions/${made.id}/metadata`)).body)
    const { status, headers } = await cloud.fetch(`/extensions/${made.id}`, { method: 'HEAD' })
    const said = ['content-type', 'content-length', 'content-disposition'].map((name) => headers.get(name))
    expect([status, ...said]).toEqual([200, 'application/octet-stream', String(zip.length), 'attachment; filename="My.Ext-1_a.zip"'])
  })

  test('needs no name, and its name may come before its file', async () => {
    expect((await upload()).name).toBeNull()
    const form = new FormData()
    form.set('name', 'first')
    form.set('file', new Blob([new Uint8Array(extensionZip())]), 'x.zip')
    expect((await cloud.fetch('/extensions', { method: 'POST', body: form })).status).toBe(201)
  })

  test('that is deleted is gone with its archive, and its name is free', async () => {
    const { id } = await upload('passing')
    expect(objects()).toContain(id)
    expect(await remove('passing')).toBe(204)
    expect(objects()).not.toContain(id)
    for (const path of [`/extensions/${id}`, '/extensions/passing', `/extensions/${id}/metadata`]) expect((await get(path)).status).toBe(404)
    expect(await remove(id)).toBe(404)
    await upload('passing')
  })

  test('whose archive has vanished from the store is told of as such', async () => {
    const { id } = await upload()
    rmSync(join(cloud.paths.objects, 'extensions', id))
    expect(await get(`/extensions/${id}`)).toMatchObject({
      status: 503,
      body: { message: `the archive of the extension "${id}" is missing in the object store` },
    })
    expect((await get(`/extensions/${id}/metadata`)).status).toBe(200)
    expect(await remove(id)).toBe(204)
  })
})

describe('the objects of extensions', () => {
  test('that no row names are removed when they are old, and the others stay; one that is gone is named', async () => {
    await using scope = new AsyncDisposableStack()
    const db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
    scope.defer(() => db.destroy())
    const { id } = await upload()
    const [row] = await cloud.query<{ scope: string }>('select scope from extensions where id = $1', [id])
    const store = fileObjects(cloud.paths.objects)
    const unnamed = newId()
    await store.put(`extensions/${unnamed}`, Readable.from([Buffer.from('x')]), { maxBytes: 1 }, AbortSignal.timeout(5_000))
    const owners = objectOwners(db, row!.scope)
    const found = await removeUnnamed(store, owners, { after: new Date(0), before: new Date(Date.now() + 1000) }, AbortSignal.timeout(5_000))
    expect([found.removed, found.failures]).toEqual([[`extensions/${unnamed}`], []])
    expect(objects()).toContain(id)
    const missing = () => findMissing(store, owners, AbortSignal.timeout(5_000))
    expect(await missing()).toEqual([])
    rmSync(join(cloud.paths.objects, 'extensions', id))
    expect(await missing()).toEqual([`extensions/${id}`])
    expect(await remove(id)).toBe(204)
  })
})

describe('an upload is refused', () => {
  const file = () => extensionForm(extensionZip())
  const changed = (change: (form: FormData) => void) => {
    const form = file()
    change(form)
    return form
  }
  test.each<[string, () => FormData, number, string]>([
    ['without a file', () => changed((form) => form.delete('file')), 400, 'file: is required'],
    ['whose file is text', () => changed((form) => form.set('file', 'x')), 400, 'file: must be a file'],
    ['with two files', () => changed((form) => form.append('file', new Blob(['x']), 'x')), 400, 'file: is given twice'],
    ['with two names', () => changed((form) => (form.append('name', 'a'), form.append('name', 'b'))), 400, 'name: is given twice'],
    ['with an unknown part', () => changed((form) => form.set('nam', 'x')), 400, 'nam: there is no such part'],
    ['with an unknown file', () => changed((form) => form.set('zip', new Blob(['x']), 'x')), 400, 'zip: there is no such part'],
    ['whose file is empty', () => extensionForm(Buffer.alloc(0)), 400, 'file: is empty'],
    ['whose file is no zip', () => extensionForm(Buffer.from('x'.repeat(100))), 400, 'file: is not a zip that can be read'],
    ['whose zip has no manifest', () => extensionForm(extensionZip({ a: '1' }, null)), 400, 'file: has no manifest.json'],
    [
      'of manifest version 2',
      () => extensionForm(extensionZip({}, { ...MANIFEST, manifest_version: 2 })),
      400,
      'file: has a manifest.json with manifest_version 2',
    ],
    ['over 50 MiB', () => extensionForm(Buffer.alloc(50 * 1024 * 1024 + 1)), 413, 'the body is larger than 52428800 bytes'],
    ['with a name with a space', () => extensionForm(extensionZip(), 'a b'), 400, 'name: must have 1 to 255 letters'],
    ['with a name that is too long', () => extensionForm(extensionZip(), 'a'.repeat(256)), 400, 'name: must have 1 to 255 letters'],
    ['with the name of a folder', () => extensionForm(extensionZip(), '..'), 400, 'name: is reserved'],
    ['with a name that looks like an id', () => extensionForm(extensionZip(), newId().toUpperCase()), 400, 'name: must not look like an id'],
    ['with several mistakes, and each is named', () => changed((form) => (form.set('a', 'x'), form.set('name', '%'))), 400, 'name: must have'],
  ])('%s', async (_, form, status, message) => {
    const found = await refusal(form())
    expect(found[0]).toBe(status)
    expect(found[1]).toContain(message)
  })

  test('when the name is taken, in any case, and nothing of it is left', async () => {
    await upload('Taken')
    expect(await refusal(extensionForm(extensionZip(), 'tAKEN'))).toEqual([409, 'there is an extension named "tAKEN" already'])
  })

  test('for all but one of those who want the same name at the same time', async () => {
    const before = objects().length
    const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await post(extensionZip(), 'race')).status))
    expect(statuses.toSorted()).toEqual([201, ...Array.from({ length: 7 }, () => 409)])
    expect(objects().length).toBe(before + 1)
  })

  test('whose caller leaves in the middle: nothing of it is left', async () => {
    const before = objects()
    const { host, port } = { host: new URL(cloud.url).hostname, port: new URL(cloud.url).port }
    const sending = request({
      host,
      port,
      path: '/extensions',
      method: 'POST',
      headers: { authorization: `Bearer ${cloud.key}`, 'content-type': 'multipart/form-data; boundary=b' },
    })
    sending.on('error', () => {})
    sending.write('--b\r\nContent-Disposition: form-data; name="file"; filename="x.zip"\r\n\r\n')
    sending.write(Buffer.alloc(1024 * 1024))
    const staged = () => readdirSync(join(cloud.paths.objects, '.new'))
    await until('the upload to begin', 5_000, async () => staged().length > 0)
    sending.destroy()
    await until('the rest of it to go', 5_000, async () => staged().length === 0)
    expect(objects()).toEqual(before)
  })
})

test('the service has logged no error but that of the missing archive', () =>
  expect(cloud.errors.map(({ message }) => message.replace(/"\w+"/, '…'))).toEqual(['the archive of the extension … is missing in the object store']))
