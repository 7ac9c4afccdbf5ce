// The rules of extensions: store, find, hand out, delete.
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes, FormPart, Page } from '../../../http/route.ts'
import { isDuplicate, isProjectGone, type Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { byIdOrName } from '../../../store/names.ts'
import type { Objects } from '../../../store/objects.ts'
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

export interface Extensions {
  /** @throws 400 when the archive is refused; 409 when the name is taken; 413 */
  upload(project: string, parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<Extension>
  list(project: string, filter: Asked): Promise<Page<Extension>>
  /** @throws 404 */
  get(project: string, idOrName: string): Promise<Extension>
  /** The bytes that were uploaded. @throws 404 */
  download(project: string, idOrName: string, signal: AbortSignal): Promise<Bytes>
  /** For a new session. Undefined when it wants none. @throws 400 that names the wrong one */
  choose(project: string, wanted: readonly ExtensionChoice[] | undefined): Promise<Chosen | undefined>
  /** @throws 404 */
  delete(project: string, idOrName: string): Promise<void>
}

export function makeExtensions({ db, objects, scope, log }: ExtensionsSettings): Extensions {
  const find = async (project: string, idOrName: string): Promise<ExtensionRow> => {
    const row = await findExtension(db, project, byIdOrName(idOrName))
    if (!row) throw fault.notFound('extension', idOrName)
    return row
  }

  /** If this fails, the sweep of objects removes it later. Its error must not hide another one. */
  const drop = (key: string) => objects.delete(key).catch((err: unknown) => log.warn({ err, key }, 'the archive of an extension could not be removed yet'))

  return {
    async upload(project, parts, signal) {
      const id = newId()
      const key = extensionKey(id)
      await using opened = new AsyncDisposableStack()
      opened.defer(() => drop(key))
      const { archive, name } = await readExtensionForm(parts, objects, key, signal)
      const { crx } = await checkArchive(objects, key, archive.bytes, signal)
      signal.throwIfAborted()
      const row = await insertExtension(db, {
        id,
        project_id: project,
        scope,
        name: name ?? null,
        object: key,
        size_bytes: archive.bytes,
        checksum: archive.sha256,
        by_policy: crx !== undefined,
      }).catch((error: unknown) => {
        if (isDuplicate(error, 'extensions_name')) throw fault.conflict(`there is an extension named "${name}" already`)
        throw isProjectGone(error) ? fault.projectNotFound(project) : error
      })
      opened.move()
      return record(row)
    },

    async list(project, filter) {
      return pageOf(await listExtensions(db, project, filter), filter, record)
    },

    get: async (project, idOrName) => record(await find(project, idOrName)),

    async download(project, idOrName, signal) {
      const { id, name, object } = await find(project, idOrName)
      const found = await objects.get(object, undefined, signal)
      if (!found) {
        // Deleted since it was found, or gone from the store.
        await find(project, id)
        throw fault.broken(`the archive of the extension "${id}" is missing in the object store`)
      }
      return {
        body: found.content,
        headers: { 'content-length': String(found.bytes), 'content-disposition': `attachment; filename="${name ?? id}.zip"` },
      }
    },

    choose: (project, wanted = []) => choose(db, objects, project, wanted),

    async delete(project, idOrName) {
      const key = await removeExtension(db, (await find(project, idOrName)).id)
      if (key === undefined) throw fault.notFound('extension', idOrName)
      await drop(key)
    },
  }
}
