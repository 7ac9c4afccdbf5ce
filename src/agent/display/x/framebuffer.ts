// Reads pixels directly from the X server's framebuffer file: no request, no copy through a socket.
import { closeSync, openSync, readSync, readvSync } from 'node:fs'
import type { Pixels, Region } from '../display.ts'

/** Most buffers that one read can fill (IOV_MAX). */
const MAX_PIECES = 1024

/** An open framebuffer; `read` gives what is on screen at that moment. */
export interface Framebuffer {
  read(region: Region): Pixels
  /** Copies the rows of a region, without gaps, into a buffer of exactly that size. */
  copy(region: Region, into: Buffer): void
  close(): void
}

/**
 * Opens an XWD file. Its header (X11/XWDFile.h, 25 big-endian words) tells where the pixels begin: after `header_size` bytes and `ncolors` colour
 * entries of 12 bytes. `bytes_per_line` is the stride of the largest screen.
 */
export function openFramebuffer(file: string): Framebuffer {
  const fd = openSync(file, 'r')
  const header = Buffer.alloc(100)
  readSync(fd, header, 0, 100, 0)
  const word = (index: number) => header.readUInt32BE(index * 4)
  const [version, bitsPerPixel, stride, start] = [word(1), word(11), word(12), word(0) + word(19) * 12]
  if (version !== 7 || bitsPerPixel !== 32) throw new Error(`${file} is not a framebuffer of 32 bits a pixel (version ${version}, ${bitsPerPixel} bits)`)
  // All captures share one buffer: the callers hold the input lock, and none keeps the buffer after that.
  let held = Buffer.alloc(0)
  return {
    read({ x, y, width, height }) {
      const offset = start + y * stride + x * 4
      const length = (height - 1) * stride + width * 4
      if (held.length < length) held = Buffer.allocUnsafeSlow(length)
      for (let done = 0; done < length;) {
        const count = readSync(fd, held, done, length - done, offset + done)
        if (count === 0) throw new Error(`${file} ended at ${offset + done}`)
        done += count
      }
      return { data: held.subarray(0, length), stride, width, height }
    },
    copy({ x, y, width, height }, into) {
      const [row, gap] = [width * 4, Buffer.allocUnsafe(stride - width * 4)]
      const rowsAtOnce = MAX_PIECES >> 1
      for (let first = 0; first < height; first += rowsAtOnce) {
        const rows = Math.min(rowsAtOnce, height - first)
        const pieces: Buffer[] = []
        // The gaps between rows all go into the same scratch buffer: one large read is far cheaper than one read per row.
        for (let at = 0; at < rows; at++) pieces.push(...(at > 0 ? [gap] : []), into.subarray((first + at) * row, (first + at + 1) * row))
        const wanted = (rows - 1) * stride + row
        const count = readvSync(fd, pieces, start + (y + first) * stride + x * 4)
        if (count !== wanted) throw new Error(`a read of the framebuffer gave ${count} bytes of ${wanted}`)
      }
    },
    close: () => closeSync(fd),
  }
}
