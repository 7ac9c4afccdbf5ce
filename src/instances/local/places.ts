// The folders outside its home that a session may write, as in an unpacked image. They are on the host next to the session's home, within the
// same quota. Links in the session's /usr/local lead to the machine's /usr/local.
import { createHash } from 'node:crypto'
import { existsSync, lchownSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, type Dirent } from 'node:fs'
import { join } from 'node:path'
import { newId } from '../../base/ids.ts'
import type { User } from '../../base/user.ts'

/** Folders in the session's folder of places, and their paths inside. */
const INSIDE: Record<string, string> = { app: '/app', data: '/data', root: '/root', local: '/usr/local', var: '/var' }

/** The path of the machine's own /usr/local inside, read-only. */
export const HOST_LOCAL = '/opt/local'
const LOCAL = '/usr/local'

// From the Filesystem Hierarchy Standard, as Debian makes them.
const FOLDERS = [
  ...['bin', 'sbin', 'etc', 'games', 'include', 'lib', 'share', 'src'].map((name) => `local/${name}`),
  ...['backups', 'cache', 'lib', 'local', 'log', 'mail', 'opt', 'spool'].map((name) => `var/${name}`),
]

/** Folders of /usr/local that programs expect to be writable; each other one (`go`, `cuda`) is one link. */
const MERGED = new Set(['bin', 'sbin', 'etc', 'games', 'include', 'lib', 'share', 'src'])
/** Deep enough for lib/python3/dist-packages. */
const MAX_DEPTH = 3
/** Limit on links: each takes some 10 µs of every start. */
const MAX_LINKS = 400

/** A session's view of the machine's /usr/local: folders to make, links to set. Paths are relative to it. */
export interface LocalLinks {
  folders: string[]
  links: string[]
}

/** Reads a /usr/local. The folders are merged as deep as the number of links allows. */
export function linksTo(root = LOCAL): LocalLinks {
  for (let depth = MAX_DEPTH; depth > 0; depth--) {
    const found: LocalLinks = { folders: [], links: [] }
    collect(root, '', depth, found)
    if (found.links.length <= MAX_LINKS) return found
  }
  return { folders: [], links: entriesOf(root).flatMap(({ name }) => (MERGED.has(name) ? [] : [name])) }
}

function collect(root: string, below: string, depth: number, found: LocalLinks): void {
  for (const entry of entriesOf(join(root, below))) {
    if (found.links.length > MAX_LINKS) return
    const path = below === '' ? entry.name : `${below}/${entry.name}`
    const isMerged = entry.isDirectory() && depth > 0 && (below !== '' || MERGED.has(entry.name))
    if (!isMerged) found.links.push(path)
    else {
      found.folders.push(path)
      collect(root, path, depth - 1, found)
    }
  }
}

function entriesOf(dir: string): Dirent[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
  } catch {
    return [] // not there, or not readable for us: then a session does not get it either
  }
}

/** No start copies from a folder that is older than this and not ours. */
const OLD_MS = 24 * 3600_000

/**
 * The places as one folder below `root` that every start copies to its own disk, which is faster than making them there one by one. The returned function makes it
 * if it is not there. /usr/local is read once.
 */
export function sharedPlaces(root: string, links = linksTo()): () => string {
  const name = `places-${createHash('sha256')
    .update(JSON.stringify([INSIDE, FOLDERS, links]))
    .digest('hex')
    .slice(0, 16)}`
  const folder = join(root, name, 'places')
  const isOld = (path: string) => Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) > OLD_MS
  for (const other of readdirSync(root)
    .filter((entry) => entry.startsWith('places-') && entry !== name)
    .map((entry) => join(root, entry)))
    if (isOld(other)) rmSync(other, { recursive: true, force: true })
  return () => {
    if (existsSync(folder)) return folder
    const made = join(root, `${name}.${newId()}`)
    mkdirSync(made, { mode: 0o700 })
    makePlaces(join(made, 'places'), undefined, links)
    try {
      renameSync(made, join(root, name))
    } catch (error) {
      rmSync(made, { recursive: true, force: true })
      if (!existsSync(folder)) throw error // otherwise another service was first
    }
    return folder
  }
}

/** Makes the places in `dir`, which must not exist yet. */
export function makePlaces(dir: string, user: User | undefined, { folders, links }: LocalLinks): void {
  const owned = (path: string) => (user ? lchownSync(join(dir, path), user.uid, user.gid) : undefined)
  const folder = (path: string, mode = 0o755) => {
    mkdirSync(join(dir, path), { mode, recursive: true })
    owned(path)
  }
  const link = (path: string, target: string) => {
    symlinkSync(target, join(dir, path))
    owned(path)
  }
  mkdirSync(dir, { mode: 0o755 })
  for (const name of Object.keys(INSIDE)) folder(name, name === 'root' ? 0o700 : 0o755)
  for (const path of [...FOLDERS, ...folders.map((name) => `local/${name}`)]) folder(path)
  folder('var/tmp')
  link('var/run', '/run')
  link('var/lock', '/run/lock')
  for (const path of links) link(`local/${path}`, `${HOST_LOCAL}/${path}`)
}

/** The bwrap options for them. */
export const placesInside = (dir: string): string[] => [
  '--ro-bind-try',
  LOCAL,
  HOST_LOCAL,
  ...Object.entries(INSIDE).flatMap(([name, path]) => ['--bind', `${dir}/${name}`, path]),
]
