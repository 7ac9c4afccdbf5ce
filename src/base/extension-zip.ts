// The checks of an extension's archive: before it is stored, and again before it is unpacked in a session. Only the manifest is unpacked here.
import { BadArchive, Contents, type ArchiveLimits } from './archive/contents.ts'
import { openZip, type ZipEntry, type ZipSource } from './archive/zip.ts'

/** The largest extensions of the store have some 10,000 files. The sizes are those in the zip; unpacked bytes are counted again. */
export const EXTENSION_LIMITS: ArchiveLimits = { entries: 20_000, bytes: 512 * 1024 ** 2, ratio: 200, ratioFromBytes: 50 * 1024 ** 2 }
const EXTENSION_RULES = { strictNames: true, anyModes: false, oneStep: 64 * 1024, limits: EXTENSION_LIMITS }
const MAX_MANIFEST_BYTES = 1024 * 1024

/** A folder that macOS adds next to the folder that a user packs. */
const BESIDE = '__MACOSX'

export interface ExtensionZip {
  /** The folder in the zip that holds the manifest; '' for its root. */
  root: string
  /** The name of its `.crx`, next to the manifest, if a policy installs it: then it has an `update.xml` and this file. */
  crx?: string
}

/** Checks the archive of an extension. @throws BadArchive, and errors of the source */
export async function checkExtension(source: ZipSource, signal: AbortSignal): Promise<ExtensionZip> {
  const { root, manifest, beside } = await look(source, signal)
  const hasUpdate = beside.includes('update.xml')
  const [crx, ...more] = beside.filter((name) => name.endsWith('.crx'))
  if (more.length > 0) throw new BadArchive(`has more than one .crx file beside its ${MANIFEST}`)
  if (hasUpdate !== (crx !== undefined))
    throw new BadArchive(
      `has ${hasUpdate ? 'an update.xml and no .crx file' : 'a .crx file and no update.xml'} beside its ${MANIFEST}; an installation by policy needs both`,
    )
  if (manifest.permissions.includes(BLOCKING) && !hasUpdate)
    throw new BadArchive(
      `asks for the permission ${BLOCKING}, which Chromium gives only to extensions that a policy installs: add update.xml and the .crx file`,
    )
  return crx === undefined ? { root } : { root, crx }
}

/** Checks the zip in a CRX. Returns the version of the extension. @throws BadArchive, and errors of the source */
export async function checkPacked(source: ZipSource, signal: AbortSignal): Promise<string> {
  const { root, manifest } = await look(source, signal)
  if (root !== '') throw new BadArchive(`has no ${MANIFEST} at its root`)
  return manifest.version
}

interface Seen {
  root: string
  manifest: Manifest
  /** The names of the files beside the manifest. */
  beside: string[]
}

async function look(source: ZipSource, signal: AbortSignal): Promise<Seen> {
  const zip = await openZip(source, EXTENSION_RULES, signal)
  /** The files at the root and in its folders, by their paths. */
  const shallow = new Map<string, FileEntry>()
  const tops = new Set<string>()
  const sizes = new Contents(EXTENSION_LIMITS, source.size)
  for await (const entry of zip.entries()) {
    if (entry.kind === 'link') throw new BadArchive(`has a link "${entry.name}"`)
    const [top, ...rest] = entry.path.split('/')
    tops.add(top!)
    if (entry.kind === 'directory') continue
    if (entry.isSpecial) throw new BadArchive(`has "${entry.name}", which is neither a file nor a directory`)
    sizes.count(entry.bytes)
    if (rest.length < 2) shallow.set(entry.path, entry)
  }
  const [folder, ...others] = [...tops].filter((top) => top !== BESIDE)
  const root = shallow.has(MANIFEST) || folder === undefined || others.length > 0 ? '' : folder
  const at = (name: string) => (root === '' ? name : `${root}/${name}`)
  const manifest = shallow.get(at(MANIFEST))
  if (!manifest) throw new BadArchive(`has no ${MANIFEST}, neither at its root nor in a folder that holds everything`)
  const beside = [...shallow.keys()].filter((path) => path.startsWith(at(''))).map((path) => path.slice(at('').length))
  return { root, manifest: checkManifest(await textOf(manifest)), beside: beside.filter((name) => !name.includes('/')) }
}

const MANIFEST = 'manifest.json'
const BLOCKING = 'webRequestBlocking'

type FileEntry = Extract<ZipEntry, { kind: 'file' }>

async function textOf({ bytes, content }: FileEntry): Promise<string> {
  if (bytes > MAX_MANIFEST_BYTES) throw new BadArchive(`has a ${MANIFEST} of more than ${MAX_MANIFEST_BYTES} bytes`)
  const chunks: Buffer[] = []
  for await (const chunk of content()) chunks.push(chunk)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    throw new BadArchive(`has a ${MANIFEST} that is not UTF-8`)
  }
}

interface Manifest {
  version: string
  permissions: unknown[]
}

/** Checks what Chromium needs of every manifest. @throws BadArchive */
function checkManifest(text: string): Manifest {
  const wrong = (what: string) => new BadArchive(`has a ${MANIFEST} ${what}`)
  let manifest: Record<string, unknown> | null
  try {
    manifest = JSON.parse(withoutComments(text)) as Record<string, unknown> | null
  } catch (error) {
    throw wrong(`that is not JSON (${(error as Error).message.slice(0, 200)})`)
  }
  if (typeof manifest !== 'object' || manifest === null || Array.isArray(manifest)) throw wrong('that is not a JSON object')
  const { manifest_version: version, name, version: own, permissions } = manifest
  if (version === 2) throw wrong('with manifest_version 2, which Chromium no longer supports; it has to be 3')
  if (version !== 3) throw wrong('whose manifest_version is not 3')
  if (typeof name !== 'string' || name === '') throw wrong('without a name')
  if (typeof own !== 'string' || !/^\d+(\.\d+){0,3}$/.test(own)) throw wrong('without a version of 1 to 4 numbers, such as 1.0')
  return { version: own, permissions: Array.isArray(permissions) ? permissions : [] }
}

/** Chromium accepts manifests with comments. Text in strings stays. No regular expression: some texts would take it minutes. */
export function withoutComments(json: string): string {
  const kept: string[] = []
  let from = 0
  for (let at = 0; at < json.length; at++) {
    if (json[at] === '"') {
      for (at++; at < json.length && json[at] !== '"'; at++) if (json[at] === '\\') at++
      continue
    }
    const opening = json.slice(at, at + 2)
    if (opening !== '//' && opening !== '/*') continue
    kept.push(json.slice(from, at), ' ')
    const end = opening === '//' ? json.indexOf('\n', at) : json.indexOf('*/', at + 2) + 1
    // An unclosed comment extends to the end.
    at = end <= 0 ? json.length : end
    from = opening === '//' ? at : at + 1
  }
  kept.push(json.slice(from))
  return kept.join('')
}
