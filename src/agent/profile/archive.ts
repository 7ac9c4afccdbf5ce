// Packs a profile into one file and unpacks it: tar, compressed with zstd. Decides which files of a profile are packed, and which entries an archive may have.
import { closeSync, constants, openSync, writeSync, mkdirSync, type Stats } from 'node:fs'
import { lstat, readdir, readlink, realpath, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, type Readable } from 'node:stream'
import { constants as zlib, createZstdCompress, createZstdDecompress } from 'node:zlib'
import * as z from 'zod'
import { BadArchive, Contents, TooLarge } from '../../base/archive/contents.ts'
import { readTar, TarWriter } from '../../base/archive/tar.ts'
import { Fault, fault } from '../../http/fault.ts'
import { fileFault } from '../fs/faults.ts'
import { openRegular } from '../fs/read.ts'
import { MANIFEST, MAX_ENTRIES } from './contract.ts'

/** Longest path in an archive, in bytes. Chromium's own have up to some 300; the system's limit includes the folder of the unpacked archive. */
const MAX_PATH = 1_000
/** Largest manifest that is read, in bytes; ours has some sixty. */
const MAX_MANIFEST = 4 * 1024
/** Bytes per read, and per output of the decompressor. The agent serves other calls between two pieces: 30 ms for one of small files. */
const PIECE = 256 * 1024
/** zstd's fastest usual level. Level 3 makes the archive a few percent smaller and takes twice as long. */
const LEVEL = 1

/** The archive's own metadata. `chromium`: the version that wrote the profile, as `156.0.7100.60`. */
const Manifest = z.object({ version: z.literal(1), chromium: z.string().regex(/^\d{1,6}(\.\d{1,6}){0,3}$/) })
export type Manifest = z.infer<typeof Manifest>

/**
 * Left out at the top of a profile: caches, and files that Chromium creates again or that only its own services use. Tested: without these, all data that a
 * site can store is restored. `Service Worker/ScriptCache` is needed by service workers and is packed.
 */
const LEFT_OUT =
  /^(Cache|Code Cache|GPUCache|Dawn.*|Shared Dictionary|shared_proto_db|Sync Data|Segmentation Platform|Site Characteristics Database|Network Action Predictor.*|DIPS.*|Reporting and NEL.*|Affiliation Database.*|Account Web Data.*|Login Data For Account.*|Top Sites.*|Shortcuts.*|Favicons.*|Trust Tokens.*|ServerCertificate.*)$/
/** Chromium's lists of tabs, with all addresses of each tab's history, also of closed tabs. */
const TABS = ['Sessions', 'Sessions_Encrypted']
/** Limit on a list of tabs, which has some kilobytes. */
const MAX_TABS = 64 * 1024 * 1024
/** Left out in every folder: logs and locks of databases. */
const LEFT_OUT_BELOW = /^(LOG|LOG\.old|LOCK)$/

interface Found {
  /** A relative path; that of a directory ends with a slash. */
  path: string
  mtime: Date
  size: number
}

/**
 * Whether a list of tabs contains one of these: a form that is sent by GET has the typed values in its address. Chromium encrypts the second copy of the list
 * with a key that is no secret.
 */
export async function tabsHave(folder: string, passwords: ReadonlySet<string>): Promise<boolean> {
  const forms = [...passwords].flatMap((value) => [value, encodeURIComponent(value), new URLSearchParams({ value }).toString().slice('value='.length)])
  const wanted = [...new Set(forms)].flatMap((form) => [Buffer.from(form), Buffer.from(form, 'utf16le')])
  if (wanted.length === 0) return false
  const tabs = join(folder, TABS[0]!)
  for (const name of await readdir(tabs).catch(() => [])) {
    const opened = await openRegular(join(tabs, name), false).catch(unlessOdd)
    // Such a file is not packed either.
    if (!opened) continue
    await using handle = opened.handle
    // This is no list of Chromium's, and is not read.
    const bytes = opened.stats.size > MAX_TABS ? undefined : await handle.readFile()
    if (!bytes || wanted.some((form) => bytes.includes(form))) return true
  }
  return false
}

/** The result of packing a profile. */
interface Packed {
  /** Size of its files before compression, in bytes. */
  bytes: number
  /** Number of entries that are left out because Chromium cannot have made them: links, FIFOs, sockets, devices, names that are not UTF-8, unreadable files. */
  leftOut: number
  archive: Readable
}

/**
 * Packs the profile in `folder`. Chromium has ended; programs of the session may continue to write there. Resolves when the files are listed; a later error
 * destroys the archive. Follows no links. @throws 409 when the profile has too many files or a too large one, or its folder is not a folder
 */
export async function packProfile(folder: string, manifest: Manifest, { withTabs } = { withTabs: true }): Promise<Packed> {
  const found: Found[] = []
  const odd = { count: 0 }
  const stats = await lstat(folder).catch(unlessOdd)
  if (!stats?.isDirectory()) throw fault.conflict('the profile cannot be saved: a program of the session has moved or replaced its folder')
  const root = await realpath(folder)
  for await (const entry of below(root, '', odd)) {
    if (!withTabs && TABS.includes(entry.path.split('/')[0]!)) continue
    if (found.push(entry) > MAX_ENTRIES) throw fault.conflict(`the profile cannot be saved: it has more than ${MAX_ENTRIES} files and directories`)
    if (Buffer.byteLength(entry.path) > MAX_PATH) throw fault.conflict(`the profile cannot be saved: a path has more than ${MAX_PATH} bytes: ${entry.path}`)
  }
  const archive = createZstdCompress({ params: { [zlib.ZSTD_c_compressionLevel]: LEVEL, [zlib.ZSTD_c_checksumFlag]: 1 } })
  // Errors are reported by the archive stream, which is destroyed.
  const left = new AbortController()
  const tar = new TarWriter(left.signal)
  pipeline(tar.archive, archive, () => left.abort(new Error('the reader of the archive has gone')))
  addAll(tar, root, found, manifest).catch((error: unknown) => tar.destroy(error as Error))
  return { bytes: found.reduce((sum, { size }) => sum + size, 0), leftOut: odd.count, archive }
}

/** Ignores errors about entries that are not readable files or directories, or were deleted. @throws others */
function unlessOdd(error: unknown): undefined {
  // A Fault means that it is not a regular file.
  if (error instanceof Fault || ODD.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
  throw error
}
const ODD = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENXIO', 'ENODEV', 'ENAMETOOLONG']

/** Opens a file below `root`, a real path. Undefined when it is not a file, or when a program has meanwhile replaced a part of the path by a link. */
async function openBelow(root: string, path: string): Promise<{ handle: FileHandle; stats: Stats } | undefined> {
  const opened = await openRegular(join(root, path), false).catch(unlessOdd)
  if (!opened || (await readlink(`/proc/self/fd/${opened.handle.fd}`)) === join(root, path)) return opened
  await opened.handle.close()
  return undefined
}

async function addAll(tar: TarWriter, root: string, found: readonly Found[], manifest: Manifest): Promise<void> {
  const first = Buffer.from(JSON.stringify(manifest))
  await tar.add(MANIFEST, first.length, [first], new Date())
  for (const { path, size, mtime } of found) await tar.add(path, size, size === 0 ? [] : contentOf(root, path, size), mtime)
  tar.end()
}

async function* contentOf(root: string, path: string, size: number): AsyncGenerator<Buffer> {
  const opened = await openBelow(root, path)
  // A partial profile must not look complete.
  if (!opened) throw new Error(`${path} was replaced while it was packed`)
  await using handle = opened.handle
  for (let left = size; left > 0;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(Math.min(PIECE, left)), 0, undefined, size - left)
    if (bytesRead === 0) throw new Error(`${path} became shorter while it was packed`)
    yield buffer.subarray(0, bytesRead)
    left -= bytesRead
  }
}

/** The files and directories to pack, each directory before its content; counts odd entries that are left out. */
async function* below(root: string, inside: string, odd: { count: number }): AsyncGenerator<Found> {
  for (const { name, kind } of await entriesOf(join(root, inside.replace(/\/$/, '')))) {
    const path = inside + name
    if ((inside === '' && (LEFT_OUT.test(name) || name === MANIFEST)) || LEFT_OUT_BELOW.test(name)) continue
    if (kind === 'directory') {
      yield { path: `${path}/`, size: 0, mtime: new Date() }
      yield* below(root, `${path}/`, odd)
      continue
    }
    const opened = kind === 'file' ? await openBelow(root, path) : undefined
    if (!opened) {
      odd.count++
      continue
    }
    const { handle, stats } = opened
    await handle.close()
    // An empty journal means that its database is complete.
    if (stats.size > 0 || !path.endsWith('-journal')) yield { path, size: stats.size, mtime: stats.mtime }
  }
}

/** The entries of a directory, by name; none if it cannot be read. `odd`: of another kind, or with a name that is not UTF-8. */
async function entriesOf(directory: string): Promise<{ name: string; kind: 'directory' | 'file' | 'odd' }[]> {
  // The directory may have been replaced by a link to another place.
  const isThere = (await realpath(directory).catch(unlessOdd)) === directory
  const entries = isThere ? await readdir(directory, { withFileTypes: true, encoding: 'buffer' }).catch(unlessOdd) : undefined
  if (!entries) return [{ name: '', kind: 'odd' }]
  return entries
    .map((entry) => {
      const name = entry.name.toString()
      const isOdd = !Buffer.from(name).equals(entry.name)
      return { name, kind: isOdd ? ('odd' as const) : entry.isDirectory() ? ('directory' as const) : entry.isFile() ? ('file' as const) : ('odd' as const) }
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

interface Unpacked {
  /** Undefined when the archive does not name its Chromium. */
  manifest: Manifest | undefined
}

/** Receives the entries that {@link readArchive} finds. Paths are relative, and each directory comes before its content. */
export interface ProfileSink {
  directory(path: string): void
  /** The returned writer gets the bytes of the file; `end` is called after the last one. */
  file(path: string): { write(piece: Buffer): void; end(): void }
}

/**
 * Reads an archive from `body` and gives its files to `sink`, all but the manifest. Tabs (`Sessions`) are left out unless `keepTabs`.
 * @throws 400 or 413 that name `body`, and errors of the sink
 */
export async function readArchive(
  body: Readable,
  sink: ProfileSink,
  { keepTabs, maxBytes }: { keepTabs: boolean; maxBytes: number },
  signal: AbortSignal,
): Promise<Unpacked> {
  const contents = new Contents({ entries: MAX_ENTRIES, bytes: maxBytes, path: MAX_PATH })
  const isWanted = (path: string) => keepTabs || !isTabs(path)
  let manifest: Manifest | undefined
  try {
    const tar = pipeline(body, createZstdDecompress({ chunkSize: PIECE }), () => {}) // the loop gets its error
    for await (const { name, kind, bytes, content } of readTar(tar, signal, maxBytes)) {
      const { path, directories } = contents.add(name, kind)
      for (const directory of directories) if (isWanted(directory)) sink.directory(directory)
      if (kind === 'directory') continue
      contents.count(bytes)
      if (path === MANIFEST) manifest = await readManifest(bytes, content)
      else if (isWanted(path)) {
        const { write, end } = sink.file(path)
        for await (const piece of content) write(piece)
        end()
      }
    }
    return { manifest }
  } catch (error) {
    signal.throwIfAborted()
    throw archiveFault(error)
  }
}

const isTabs = (path: string): boolean => path === 'Sessions' || path.startsWith('Sessions/')

async function readManifest(bytes: number, content: AsyncIterable<Buffer>): Promise<Manifest> {
  if (bytes > MAX_MANIFEST) throw new BadArchive(`has a ${MANIFEST} of more than ${MAX_MANIFEST} bytes`)
  const pieces: Buffer[] = []
  for await (const piece of content) pieces.push(piece)
  try {
    return Manifest.parse(JSON.parse(Buffer.concat(pieces).toString()))
  } catch {
    throw new BadArchive(`has a ${MANIFEST} that is not {"version":1,"chromium":"…"}`)
  }
}

function archiveFault(error: unknown): unknown {
  if (error instanceof TooLarge) return new Fault('payload_too_large', `body: the profile ${error.message}`, { cause: error })
  if (error instanceof BadArchive) return fault.field('body', `the profile ${error.message}`)
  const code = (error as NodeJS.ErrnoException).code ?? ''
  if (code.startsWith('ZSTD_') || code.startsWith('Z_')) return fault.field('body', `the profile is not zstd, or is damaged: ${(error as Error).message}`)
  return fileFault(error, 'body', '')
}

/** Writes the files of an archive below `root`, which exists. Nothing is replaced, and no link is followed. */
export function intoFolder(root: string): ProfileSink & Disposable {
  let file: number | undefined
  const close = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  // Create and write without awaiting: a profile is a hundred small files, and each await would cost as much as the write.
  return {
    directory: (path) => mkdirSync(join(root, path), { mode: 0o700 }),
    file(path) {
      const opened = openSync(join(root, path), constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
      file = opened
      return {
        write(piece) {
          for (let at = 0; at < piece.length;) at += writeSync(opened, piece, at)
        },
        end: close,
      }
    },
    [Symbol.dispose]: close,
  }
}

/** Whether the Chromium of `version` is newer than that of `other`: 156.0.7100.60 and the like. */
export function isNewer(version: string, other: string): boolean {
  const [a, b] = [version, other].map((text) => text.split('.').map(Number))
  for (let at = 0; at < 4; at++) if ((a![at] ?? 0) !== (b![at] ?? 0)) return (a![at] ?? 0) > (b![at] ?? 0)
  return false
}
