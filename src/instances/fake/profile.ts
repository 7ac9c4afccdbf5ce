// Profiles of a fake browser: its clipboard's text is all that it keeps. The first word of the text says how a save goes, or how the next browser takes it:
// `slow` (each save takes 500 ms), `hang` (a save never ends), `break` (a save breaks off in the middle), `refuse` (a save is refused), `dead` (Chromium has ended, so the
// save is not whole), `junk` (what is saved is no archive), `large` (3 MiB that cannot be compressed), `newer` (no browser loads it).
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { BYTES_HEADER, WHOLE_HEADER } from '../../agent/profile/contract.ts'
import type { Profile } from '../../agent/profile/handlers.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'

const SLOW_MS = 500
const LARGE_BYTES = 3 * 1024 * 1024

/** What a fake browser keeps. */
export interface Memory {
  text: string
}

export const pretendProfile = (memory: Memory): Profile => ({
  async load(archive, { maxBytes }) {
    const packed = await buffer(archive)
    let text: string
    try {
      text = zstdDecompressSync(packed, { maxOutputLength: maxBytes }).toString()
    } catch {
      throw fault.field('', 'the archive is broken or too large')
    }
    if (text.startsWith('newer')) throw fault.conflict('it was saved by a newer Chromium')
    memory.text = text
    return { chromium: 'Pretended/1' }
  },
  async save() {
    const { text } = memory
    const how = text.split(' ', 1)[0]!
    if (how === 'slow') await sleep(SLOW_MS)
    if (how === 'hang') await new Promise(() => {})
    if (how === 'refuse') throw fault.unavailable('its disk is broken')
    const whole = how === 'large' ? Buffer.concat([Buffer.from(text), randomBytes(LARGE_BYTES)]) : Buffer.from(text)
    const packed = zstdCompressSync(whole)
    const archive = how === 'junk' ? Readable.from([Buffer.from('no archive')]) : how === 'break' ? Readable.from(broken(packed)) : Readable.from([packed])
    return { body: archive, headers: { [WHOLE_HEADER]: String(how !== 'dead'), [BYTES_HEADER]: String(whole.length) } }
  },
})

async function* broken(packed: Buffer): AsyncGenerator<Buffer> {
  yield packed.subarray(0, packed.length / 2)
  await sleep(20)
  throw new Error('the disk does not answer')
}
