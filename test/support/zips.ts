// Makes zip archives byte by byte, also invalid ones that normal programs would not make.
import { crc32, deflateRawSync } from 'node:zlib'

export interface ZipEntry {
  name: string
  content?: Buffer | string
  /** The Unix mode with the file type: 0o100644, 0o120777. */
  mode?: number
  /** A false size to write into the header. */
  size?: number
  crc?: number
  method?: number
  flags?: number
  store?: boolean
  /** Points to the content of an earlier entry instead of having its own. */
  sameAs?: number
}

/** The archive of these entries, as APPNOTE.TXT describes it. */
export function makeZip(entries: readonly ZipEntry[], { count = entries.length }: { count?: number } = {}): Buffer {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  const places: { offset: number; packed: number }[] = []
  let offset = 0
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? '')
    const packed = entry.store ? content : deflateRawSync(content)
    const name = Buffer.from(entry.name)
    const head = Buffer.alloc(26)
    head.writeUInt16LE(20, 0)
    head.writeUInt16LE(entry.flags ?? 0x800, 2)
    head.writeUInt16LE(entry.method ?? (entry.store ? 0 : 8), 4)
    head.writeUInt32LE(entry.crc ?? crc32(content), 10)
    const place = entry.sameAs === undefined ? { offset, packed: packed.length } : places[entry.sameAs]!
    places.push(place)
    head.writeUInt32LE(place.packed, 14)
    head.writeUInt32LE(entry.size ?? content.length, 18)
    head.writeUInt16LE(name.length, 22)
    if (entry.sameAs === undefined) {
      const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), head, name, packed])
      parts.push(local)
      offset += local.length
    }
    const record = Buffer.alloc(46)
    record.write('PK\x01\x02', 'latin1')
    record.writeUInt16LE((3 << 8) | 63, 4)
    head.copy(record, 6, 0, 24)
    record.writeUInt32LE(((entry.mode ?? 0o100644) << 16) >>> 0, 38)
    record.writeUInt32LE(place.offset, 42)
    central.push(Buffer.concat([record, name]))
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  end.writeUInt16LE(count, 8)
  end.writeUInt16LE(count, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, directory, end])
}
