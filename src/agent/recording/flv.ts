// Parses ffmpeg's FLV output. FLV packets start with their length, so each is known to be complete at its last byte.

/** A packet of the encoder: the decoder's configuration, or one frame. */
export type Packet = { kind: 'description'; data: Buffer } | { kind: 'frame'; data: Buffer; isKey: boolean; atMs: number }

const FILE_HEADER = 9 + 4
const TAG_HEADER = 11
const TAG_END = 4
const [AUDIO, VIDEO] = [8, 9]

/** Takes chunks of any size and returns the packets that are complete. */
export class FlvReader {
  #chunks: Buffer[] = []
  #length = 0
  #hasHeader = false

  push(chunk: Buffer): Packet[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const packets: Packet[] = []
    if (!this.#hasHeader) {
      if (this.#length < FILE_HEADER) return packets
      this.#take(FILE_HEADER)
      this.#hasHeader = true
    }
    while (this.#length >= TAG_HEADER) {
      const head = this.#peek(TAG_HEADER)
      const size = head.readUIntBE(1, 3)
      if (this.#length < TAG_HEADER + size + TAG_END) return packets
      const atMs = head.readUIntBE(4, 3) + head[7]! * 0x1000000
      const data = this.#take(TAG_HEADER + size + TAG_END).subarray(TAG_HEADER, TAG_HEADER + size)
      if (head[0] === VIDEO && size > 5) packets.push(video(data, atMs))
      else if (head[0] === AUDIO && size > 2) packets.push(audio(data, atMs))
    }
    return packets
  }

  #peek(length: number): Buffer {
    if (this.#chunks[0]!.length < length) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0]!
  }

  #take(length: number): Buffer {
    const all = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks)
    this.#length -= length
    this.#chunks = all.length > length ? [all.subarray(length)] : []
    return all.subarray(0, length)
  }
}

// One byte for kind and codec, one for the packet type (0: configuration), then 24 bits that only matter when frames are reordered.
const video = (data: Buffer, atMs: number): Packet =>
  data[1] === 0 ? { kind: 'description', data: data.subarray(5) } : { kind: 'frame', data: data.subarray(5), isKey: data[0]! >> 4 === 1, atMs }

const audio = (data: Buffer, atMs: number): Packet =>
  data[1] === 0 ? { kind: 'description', data: data.subarray(2) } : { kind: 'frame', data: data.subarray(2), isKey: true, atMs }
