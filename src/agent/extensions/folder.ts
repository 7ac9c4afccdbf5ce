// The folder of a session's extensions: archives are received, checked, and each unpacked into a separate folder.
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import type { FormPart } from '../../http/route.ts'
import { onPath } from '../fs/faults.ts'
import { DIRECTORY_MODE, stage, temporaryName } from '../fs/stage.ts'
import { Undo } from '../fs/undo.ts'
import { MAX_EXTENSION_BYTES } from './contract.ts'
import type { Forced } from './by-policy.ts'
import { readExtensionParts } from './form.ts'

export interface ExtensionFolder {
  /** Unpacks an archive as the extension `name`. @throws 400 when it is refused or the name is taken, 413 */
  add(name: string, archive: Readable, signal: AbortSignal): Promise<void>
  /** The same for all extensions of a form; all or none. Returns their names. */
  addAll(parts: AsyncIterable<FormPart>, signal: AbortSignal): Promise<string[]>
  remove(names: readonly string[]): Promise<void>
  /** For an extension that a policy installs: its entry in the policy. */
  forced(name: string): Forced | undefined
}

/** Keeps extensions in folders of `dir`, which is created when needed. */
export function openExtensionFolder(dir: string): ExtensionFolder {
  const byPolicy = new Map<string, Forced>()

  const receive = async (archive: Readable, undo: Undo, signal: AbortSignal) => {
    await mkdir(dir, { recursive: true, mode: DIRECTORY_MODE })
    return stage(dir, archive, undo, signal, MAX_EXTENSION_BYTES)
  }

  /** Unpacks the archive of the extension `name` beside its final folder. */
  async function unpacked(archive: string, name: string, field: string, undo: Undo, signal: AbortSignal): Promise<Unpacked> {
    // Most sessions have no extensions, and start without this code.
    const [{ checkExtension, EXTENSION_LIMITS }, { BadArchive }, { fileSource }, { unpack }] = await Promise.all([
      import('../../base/extension-zip.ts'),
      import('../../base/archive/contents.ts'),
      import('../../base/archive/zip.ts'),
      import('../fs/unzip.ts'),
    ])
    const file = await open(archive)
    try {
      const { root, crx } = await checkExtension(await fileSource(file), signal).catch((error: unknown) => {
        throw error instanceof BadArchive ? fault.field(field, error.message) : error
      })
      const staging = join(dir, temporaryName())
      await mkdir(staging, { mode: DIRECTORY_MODE })
      // This runs also when its folder was moved from here to its final place.
      undo.defer(() => rm(staging, { recursive: true, force: true }))
      await unpack(file, staging, EXTENSION_LIMITS, field, signal)
      const from = join(staging, root)
      if (crx === undefined) return { from, forced: undefined }
      const { prepareForced } = await import('./by-policy.ts')
      return { from, forced: await prepareForced(from, join(dir, name), crx, field, signal) }
    } finally {
      await file.close()
    }
  }

  async function moveIn({ from, forced }: Unpacked, name: string, field: string, undo: Undo): Promise<void> {
    const place = join(dir, name)
    // A rename replaces a folder only if it is empty, so nothing is lost when two calls use one name.
    await onPath(field, name, () => mkdir(place, { mode: DIRECTORY_MODE }))
    undo.defer(async (kept) => (kept ? undefined : rm(place, { recursive: true, force: true })))
    await onPath(field, name, () => rename(from, place))
    if (forced) byPolicy.set(name, forced)
    else byPolicy.delete(name)
  }

  return {
    async add(name, archive, signal) {
      await using undo = new Undo()
      const received = await receive(archive, undo, signal)
      await moveIn(await unpacked(received, name, 'zip_file', undo, signal), name, 'name', undo)
      await rm(received)
      undo.keep()
    },
    async addAll(parts, signal) {
      await using undo = new Undo()
      const given = await readExtensionParts(parts, (content) => receive(content, undo, signal))
      const ready: { files: Unpacked; name: string; field: string }[] = []
      for (const { name, archive, field } of given)
        ready.push({ files: await unpacked(archive, name, `${field}[zip_file]`, undo, signal), name, field: `${field}[name]` })
      for (const { files, name, field } of ready) await moveIn(files, name, field, undo)
      for (const { archive } of given) await rm(archive)
      undo.keep()
      return ready.map(({ name }) => name)
    },
    async remove(names) {
      for (const name of names) await rm(join(dir, name), { recursive: true, force: true })
    },
    forced: (name) => byPolicy.get(name),
  }
}

interface Unpacked {
  /** The folder with the manifest. */
  from: string
  forced: Forced | undefined
}
