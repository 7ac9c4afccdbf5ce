// Upload forms: several files at once, and the form with a zip.
import { constants } from 'node:fs'
import { copyFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fault } from '../../http/fault.ts'
import type { FormPart } from '../../http/route.ts'
import { Path } from './contract.ts'
import { onPath } from './faults.ts'
import { FILE_MODE, makeDirectories, placeOf, settle, stage, temporaryName } from './stage.ts'
import { Undo } from './undo.ts'

/** Field names: `files[0][file]` from the TypeScript SDK, `files.0.file` from Go, and `files[][file]` from Python, where the order counts. */
const PART = /^files(?:\[(\d{0,4})\]|\.(\d{1,4}))(?:\[(dest_path|file)\]|\.(dest_path|file))$/

interface Incoming {
  path?: string
  staged?: string
}

/**
 * Writes the files of a form. All are received before the first is renamed into place, so an invalid or interrupted form changes nothing. A file
 * whose path has not arrived yet is stored in `home`.
 */
export async function uploadFiles(parts: AsyncIterable<FormPart>, home: string, signal: AbortSignal): Promise<void> {
  await using undo = new Undo()
  const files = new Map<string, Incoming>()
  const unnumbered = { dest_path: 0, file: 0 }
  for await (const part of parts) {
    const [index, field] = partOf(part.name, unnumbered)
    const file = files.get(index) ?? {}
    files.set(index, file)
    const name = `files[${index}][${field}]`
    if (field === 'dest_path') {
      if (file.path !== undefined) throw fault.field(name, 'is given twice')
      file.path = pathOf(part, name)
    } else {
      if (!('content' in part)) throw fault.field(name, 'must be a file')
      if (file.staged !== undefined) throw fault.field(name, 'is given twice')
      const { content } = part
      const dir = file.path === undefined ? home : await dirFor(file.path, name, undo)
      file.staged = await onPath(name, file.path ?? home, () => stage(dir, content, undo, signal))
    }
  }
  await settleAll(files, undo)
  undo.keep()
}

async function settleAll(files: Map<string, Incoming>, undo: Undo): Promise<void> {
  if (files.size === 0) throw fault.field('files', 'at least one file is required')
  const places = new Map<string, { index: string; staged: string; mode: number }>()
  for (const [index, { path, staged }] of files) {
    if (path === undefined) throw fault.field(`files[${index}][dest_path]`, 'is required')
    if (staged === undefined) throw fault.field(`files[${index}][file]`, 'is required')
    const name = `files[${index}][dest_path]`
    const place = await onPath(name, path, () => placeOf(path, name))
    if (places.has(place.path)) throw fault.field(name, 'is also the path of another file of this form')
    const dir = await dirFor(path, name, undo)
    const near = dirname(staged) === dir ? staged : await onPath(name, path, () => bringNear(staged, dir, undo))
    places.set(place.path, { index, staged: near, mode: place.mode ?? FILE_MODE })
  }
  for (const [place, { index }] of places)
    for (let above = dirname(place); above !== '/' && above !== '.'; above = dirname(above))
      if (places.has(above)) throw fault.field(`files[${index}][dest_path]`, 'lies below another file of this form')
  for (const [place, { index, staged, mode }] of places) await onPath(`files[${index}][dest_path]`, place, () => settle(staged, place, mode))
}

/** The destination directory of a file, created when missing. */
async function dirFor(path: string, field: string, undo: Undo): Promise<string> {
  return onPath(field, path, async () => {
    const dir = dirname((await placeOf(path, field)).path)
    await makeDirectories(dir, undo)
    return dir
  })
}

/** Moves a staged file into another directory, which may be on another file system. */
async function bringNear(staged: string, dir: string, undo: Undo): Promise<string> {
  const near = join(dir, temporaryName())
  undo.defer(async (kept) => (kept ? undefined : rm(near, { force: true })))
  try {
    await rename(staged, near)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    await copyFile(staged, near, constants.COPYFILE_EXCL)
    await rm(staged)
  }
  return near
}

function partOf(name: string, unnumbered: { dest_path: number; file: number }): [index: string, field: 'dest_path' | 'file'] {
  const found = PART.exec(name)
  if (!found) throw fault.field(name, 'there is no such part; they are files[0][dest_path], files[0][file] and so on')
  const field = (found[3] ?? found[4]) as 'dest_path' | 'file'
  const index = found[1] ?? found[2]!
  return [index === '' ? String(unnumbered[field]++) : String(Number(index)), field]
}

function pathOf(part: FormPart, name: string): string {
  if (!('value' in part)) throw fault.field(name, 'must be text')
  const parsed = Path.safeParse(part.value)
  if (!parsed.success) throw fault.field(name, parsed.error.issues[0]!.message)
  return parsed.data
}

/** Receives the form of a zip: stores the archive in a file below `home`, which `undo` deletes, and returns the destination. */
export async function receiveZip(
  parts: AsyncIterable<FormPart>,
  home: string,
  undo: Undo,
  signal: AbortSignal,
): Promise<{ destination: string; archive: string }> {
  let destination: string | undefined
  let archive: string | undefined
  for await (const part of parts) {
    if (part.name === 'dest_path') {
      if (destination !== undefined) throw fault.field('dest_path', 'is given twice')
      destination = pathOf(part, 'dest_path')
    } else if (part.name === 'zip_file') {
      if (!('content' in part)) throw fault.field('zip_file', 'must be a file')
      if (archive !== undefined) throw fault.field('zip_file', 'is given twice')
      const { content } = part
      archive = await onPath('zip_file', home, () => stage(home, content, undo, signal))
    } else throw fault.field(part.name, 'there is no such part; they are dest_path and zip_file')
  }
  if (destination === undefined) throw fault.field('dest_path', 'is required')
  if (archive === undefined) throw fault.field('zip_file', 'is required')
  return { destination, archive }
}
