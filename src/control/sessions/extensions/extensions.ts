// The rules of extensions: store, find, hand out, delete.
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, FormPart, Page } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { byIdOrName } from '../../../store/names.ts'
import type { Objects } from '../../../store/objects.ts'
import { written } from '../../service/written.ts'
import { checkArchive } from './archive.ts'
import { choose, type Chosen } from './chosen.ts'
import type { Extension, ExtensionChoice } from './contract.ts'
import { readExtensionForm } from './form.ts'
import { extensionKey, findExtension, insertExtension, listExtensions, record, removeExtension, type ExtensionRow } from './rows.ts'

interface ExtensionsSettings {
  db: Db
  objects: Objects
  scope: string
  log: Log
}

export type Extensions = ReturnType<typeof makeExtensions>

export function makeExtensions({ db, objects, scope, log }: ExtensionsSettings) {
  /** @throws 404 */
  const find = async (project: string, idOrName: string): Promise<ExtensionRow> => {
    const row = await findExtension(db, project, byIdOrName(idOrName))
    if (!row) throw fault.notFound('extension', idOrName)
    return row
  }

  /** If this fails, the sweep of objects removes the archive later. The error must not hide another one. */
  const drop = (key: string) => objects.delete(key).catch((err: unknown) => log.warn({ err, key }, 'the archive of an extension could not be removed yet'))

  return {
    /** @throws 400 when the archive is refused; 409 when the name is taken; 413 */
    async upload(project: string, parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<Extension> {
      const id = newId()
      const key = extensionKey(id)
      await using opened = new AsyncDisposableStack()
      opened.defer(() => drop(key))
      const { archive, name } = await readExtensionForm(parts, objects, key, signal)
      const { crx } = await checkArchive(objects, key, archive.bytes, signal)
      signal.throwIfAborted()
      const row = {
        id,
        project_id: project,
        scope,
        name: name ?? null,
        object: key,
        size_bytes: archive.bytes,
        checksum: archive.sha256,
        by_policy: crx !== undefined,
      }
      const made = await written(insertExtension(db, row), { table: 'extensions', one: 'an extension' }, name, project)
      opened.move()
      return record(made)
    },

    async list(project: string, filter: Asked): Promise<Page<Extension>> {
      return pageOf(await listExtensions(db, project, filter), filter, record)
    },

    get: async (project: string, idOrName: string): Promise<Extension> => record(await find(project, idOrName)),

    /** The bytes that were uploaded. @throws 404 */
    async download(project: string, idOrName: string, signal: AbortSignal): Promise<Bytes> {
      const { id, name, object } = await find(project, idOrName)
      const found = await objects.get(object, undefined, signal)
      if (!found) {
        // It was deleted meanwhile, or the store has lost it.
        await find(project, id)
        throw fault.broken(`the archive of the extension "${id}" is missing in the object store`)
      }
      return {
        body: found.content,
        headers: { 'content-length': String(found.bytes), 'content-disposition': `attachment; filename="${name ?? id}.zip"` },
      }
    },

    /** For a new session. Undefined when it wants none. @throws 400 that names the wrong extension */
    choose: (project: string, wanted: readonly ExtensionChoice[] = []): Promise<Chosen | undefined> => choose(db, objects, project, wanted),

    async delete(project: string, idOrName: string): Promise<void> {
      const key = await removeExtension(db, (await find(project, idOrName)).id)
      if (key === undefined) throw fault.notFound('extension', idOrName)
      await drop(key)
    },
  }
}
