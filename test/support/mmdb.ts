// Writes MaxMind databases of IPv4 networks, for tests of the operator's GeoIP file.

const MARKER = Buffer.concat([Buffer.from([0xab, 0xcd, 0xef]), Buffer.from('MaxMind.com')])
const NODE_BYTES = 6
const SEPARATOR_BYTES = 16

/** The format's numbers for the types of values. */
const TYPE = { text: 2, uint16: 5, uint32: 6, map: 7, uint64: 9, list: 11 }

const head = (type: number, size: number): Buffer => {
  const [short, more] = size < 29 ? [size, []] : [29, [size - 29]]
  return Buffer.from(type <= 7 ? [(type << 5) | short, ...more] : [short, type - 7, ...more])
}
const number = (type: number, bytes: number) => (value: number) => {
  const content = Buffer.alloc(bytes)
  content.writeUIntBE(value, 0, bytes)
  return Buffer.concat([head(type, bytes), content])
}
const uint16 = number(TYPE.uint16, 2)
const uint32 = number(TYPE.uint32, 4)
const uint64 = number(TYPE.uint64, 6)

/** Encodes a text, or an object of texts and objects. */
function value(of: unknown): Buffer {
  if (Buffer.isBuffer(of)) return of
  if (typeof of === 'string') return Buffer.concat([head(TYPE.text, Buffer.byteLength(of)), Buffer.from(of)])
  const entries = Object.entries(of as object)
  return Buffer.concat([head(TYPE.map, entries.length), ...entries.flatMap(([key, one]) => [value(key), value(one)])])
}

/** A database with one record for each network, for example `203.0.113.0/24`. The networks must not overlap. */
export function mmdb(type: 'GeoLite2-City' | 'GeoLite2-Country', networks: Record<string, object>): Buffer {
  // A branch is a node, the index of a record, or empty.
  type Node = [left?: Node | number, right?: Node | number]
  const root: Node = []
  const records = Object.values(networks).map(value)
  for (const [index, network] of Object.keys(networks).entries()) {
    const [address, length] = network.split('/')
    const bits = address!.split('.').flatMap((part) => Number(part).toString(2).padStart(8, '0').split('').map(Number))
    const last = Number(length) - 1
    let node = root
    for (const bit of bits.slice(0, last)) node = (node[bit] ??= []) as Node
    node[bits[last]!] = index
  }
  const nodes: Node[] = []
  const number = (node: Node): void => {
    nodes.push(node)
    for (const branch of node) if (Array.isArray(branch)) number(branch)
  }
  number(root)
  const offsets = records.map((_, index) => records.slice(0, index).reduce((sum, { length }) => sum + length, 0))
  const tree = Buffer.alloc(nodes.length * NODE_BYTES)
  for (const [index, node] of nodes.entries())
    for (const side of [0, 1]) {
      const branch = node[side]
      const pointer = Array.isArray(branch) ? nodes.indexOf(branch) : nodes.length + (branch === undefined ? 0 : SEPARATOR_BYTES + offsets[branch]!)
      tree.writeUIntBE(pointer, index * NODE_BYTES + side * 3, 3)
    }
  const metadata = value({
    node_count: uint32(nodes.length),
    record_size: uint16(24),
    ip_version: uint16(4),
    database_type: type,
    languages: head(TYPE.list, 0),
    binary_format_major_version: uint16(2),
    binary_format_minor_version: uint16(0),
    build_epoch: uint64(1_700_000_000),
    description: {},
  })
  return Buffer.concat([tree, Buffer.alloc(SEPARATOR_BYTES), ...records, MARKER, metadata])
}
