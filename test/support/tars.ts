// Makes tar archives with any content, for tests of what the readers refuse.

const BLOCK = 512
/** The mark at the end of an archive. */
export const TAR_END = Buffer.alloc(2 * BLOCK)
const fill = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)

/** One entry of an archive. A name that ends with a slash is a directory; `change` may write anything into its header. */
export function tarEntry(path: string, content: Buffer | string = '', change: (header: Buffer) => void = () => {}): Buffer {
  const [name, bytes] = [Buffer.from(path), Buffer.from(content)]
  const isLong = name.length > 100
  const header = Buffer.alloc(BLOCK)
  const number = (value: number, at: number, length: number) => header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  name.copy(header, 0, 0, 100)
  number(0o600, 100, 8)
  number(bytes.length, 124, 12)
  header.write(path.endsWith('/') ? '5' : '0', 156, 'latin1')
  header.write('ustar\x0000', 257, 'latin1')
  change(header)
  header.write('        ', 148, 'latin1')
  header.write(
    `${header
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
    'latin1',
  )
  const entry = Buffer.concat([header, bytes, fill(bytes.length)])
  return isLong ? Buffer.concat([tarEntry('long', Buffer.concat([name, Buffer.alloc(1)]), typed('L')), entry]) : entry
}

/** Gives an entry a type and a link target. */
export const typed =
  (type: string, link = '') =>
  (header: Buffer): void => {
    header.write(type, 156, 'latin1')
    header.write(link, 157, 'latin1')
  }
