// The rules that an archive of any format must keep before it is used: its names stay below its root, each path occurs once, and limits.

/** Limits on the content of one archive. Directories that are implied by names count as entries. */
export interface ArchiveLimits {
  entries: number
  /** Bytes of all files together. */
  bytes: number
  /** Limit on unpacked bytes per byte of the archive... */
  ratio?: number
  /** ...which applies above this size. Text packs 10 : 1; deflate's maximum is 1032 : 1. */
  ratioFromBytes?: number
  /** The longest path in bytes; {@link MAX_PATH} unless given. */
  path?: number
}

/** A system call accepts paths of 4095 bytes, including the folder into which the archive is unpacked. */
export const MAX_PATH = 4_000
/** The longest name of a file, in bytes (NAME_MAX). */
const MAX_NAME = 255
const MAX_SHOWN = 200

/** An archive that is refused. The message continues a sentence that begins with the archive: `has "a" twice`. */
export class BadArchive extends Error {
  override name = 'BadArchive'
}

/** The archive exceeds the limits. */
export class TooLarge extends BadArchive {}

type Kind = 'directory' | 'file' | 'link'

interface Placed {
  /** Below the root, without empty parts and dots; '' for the root itself. */
  path: string
  /** Directories that this entry creates, including itself, each before its content. */
  directories: string[]
}

export class Contents {
  readonly #limits: ArchiveLimits
  readonly #packedBytes: number
  readonly #kinds = new Map<string, Kind>()
  #bytes = 0

  constructor(limits: ArchiveLimits, packedBytes = Infinity) {
    this.#limits = limits
    this.#packedBytes = packedBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Takes an entry. @throws BadArchive */
  add(name: string, kind: Kind): Placed {
    const parts = this.#partsOf(name)
    const path = parts.join('/')
    if (path === '' && kind !== 'directory') throw new BadArchive('has a file without a name')
    if (kind !== 'directory' && this.#kinds.has(path)) throw new BadArchive(`has ${shown(name)} twice`)
    const directories: string[] = []
    // From the whole path upwards: a name may have two thousand levels, and thousands of names may share them. The parents of a known path are known, too.
    for (let at = kind === 'directory' ? path : above(path); at !== ''; at = above(at)) {
      const before = this.#kinds.get(at)
      if (before === 'directory') break
      if (before !== undefined) throw new BadArchive(`has ${shown(name)} below ${shown(at)}, which is not a directory`)
      directories.push(at)
    }
    for (const directory of directories.reverse()) this.#kinds.set(directory, 'directory')
    if (kind !== 'directory') this.#kinds.set(path, kind)
    this.checkEntries(this.#kinds.size)
    return { path, directories }
  }

  /** @throws TooLarge when so many entries are too many */
  checkEntries(count: number): void {
    if (count > this.#limits.entries) throw new TooLarge(`has more than ${this.#limits.entries} entries`)
  }

  /** Counts unpacked bytes. @throws TooLarge */
  count(bytes: number): void {
    const { bytes: most, ratio = Infinity, ratioFromBytes = 0 } = this.#limits
    this.#bytes += bytes
    if (this.#bytes > most) throw new TooLarge(`unpacks to more than ${most} bytes`)
    if (this.#bytes > ratioFromBytes && this.#bytes > ratio * this.#packedBytes) throw new TooLarge(`unpacks to more than ${ratio} times its size`)
  }

  #partsOf(name: string): string[] {
    const { path: most = MAX_PATH } = this.#limits
    if (name.includes('\0')) throw new BadArchive('has a name with U+0000 in it')
    if (name.startsWith('/')) throw new BadArchive(`has the absolute name ${shown(name)}`)
    const parts = name.split('/').filter((part) => part !== '' && part !== '.')
    if (parts.includes('..')) throw new BadArchive(`has the name ${shown(name)}, which leads out of it`)
    if (Buffer.byteLength(name) > most || parts.some((part) => Buffer.byteLength(part) > MAX_NAME))
      throw new BadArchive(`has the name ${shown(name)}, which is too long`)
    return parts
  }
}

const above = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')))

export const shown = (name: string): string => `"${name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}…` : name}"`
