// The extensions of a new session: finds them by id or name, then sends them to the browser, which unpacks them.
import { extensionStaging } from '../../../agent/extensions/contract.ts'
import { call, CallFailed } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import type { ExtensionChoice } from './contract.ts'
import { findExtension, noteUse, type ExtensionRow } from './rows.ts'

/** Extensions that were found. */
export interface Chosen {
  ids: string[]
  /** Makes the browser unpack them. Returns the settings that load them. @throws 400 that names the extension that cannot be used; CallFailed */
  bring(agent: Endpoint, signal: AbortSignal): Promise<{ extensions: string[] }>
}

/** Finds the extensions that a create names; undefined when it names none. @throws 400 that names the wrong one */
export async function choose(db: Db, objects: Objects, project: string, wanted: readonly ExtensionChoice[]): Promise<Chosen | undefined> {
  const rows: ExtensionRow[] = []
  for (const [at, choice] of wanted.entries()) {
    const field = `extensions.${at}`
    const row = await findExtension(db, project, choice)
    if (!row) throw fault.field(`${field}.${choice.id === undefined ? 'name' : 'id'}`, 'there is no such extension')
    if (rows.some(({ id }) => id === row.id)) throw fault.field(field, 'is given twice')
    rows.push(row)
  }
  if (rows.length === 0) return undefined
  return {
    ids: rows.map(({ id }) => id),
    async bring(agent, signal) {
      for (const [at, row] of rows.entries()) await send(objects, row, agent, `extensions.${at}`, signal)
      await noteUse(
        db,
        rows.map(({ id }) => id),
      )
      return { extensions: rows.map(folderOf) }
    },
  }
}

/** Its folder in a session. No name has the form of an id. */
const folderOf = ({ id, name }: ExtensionRow): string => name ?? id

async function send(objects: Objects, row: ExtensionRow, agent: Endpoint, field: string, signal: AbortSignal): Promise<void> {
  const found = await objects.get(row.object, undefined, signal)
  if (!found) throw fault.field(field, 'its archive is gone: it was deleted, or the object store has lost it')
  try {
    await call(agent, extensionStaging.stageExtension, { query: { name: folderOf(row) }, body: found.content }, { signal })
  } catch (error) {
    if (error instanceof CallFailed && error.status === 400) throw fault.field(field, error.reason)
    throw error
  } finally {
    found.content.destroy()
  }
}
