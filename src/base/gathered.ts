// Collects pieces of bytes. Each Buffer takes some 200 bytes in addition to its content, so the number of Buffers must not depend on a sender of tiny pieces.

/** Bytes in the order in which they were added, in one growing buffer. */
export class Gathered {
  #data: Buffer = Buffer.alloc(0)
  length = 0

  add(piece: Buffer): void {
    const length = this.length + piece.length
    // The first piece is not copied: often it is the only one.
    if (this.length === 0) this.#data = piece
    else {
      if (length > this.#data.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#data.length, length))
        this.#data.copy(larger, 0, 0, this.length)
        this.#data = larger
      }
      piece.copy(this.#data, this.length)
    }
    this.length = length
  }

  /** All of them. Valid until more is added. */
  get bytes(): Buffer {
    return this.#data.subarray(0, this.length)
  }

  clear(): void {
    this.#data = Buffer.alloc(0)
    this.length = 0
  }
}
