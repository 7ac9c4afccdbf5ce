// The profile of a fake browser. It contains only the text of the clipboard, in a file of archives like real ones. The first word of the text controls the
// result of a save: `slow` (it takes 2 s), `hang` (it never ends), `break` (it breaks off in the middle), `refuse` (it is refused), `dead` (Chromium has ended,
// so it is not whole), `junk` (it is no archive), `large` (it has 3 MiB that cannot be compressed), `newer` (a newer Chromium writes it, so none loads it).
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { isNewer, readArchive } from '../../agent/profile/archive.ts'
import { BYTES_HEADER, MANIFEST, WHOLE_HEADER } from '../../agent/profile/contract.ts'
import type { Profile } from '../../agent/profile/handlers.ts'
import { TarWriter } from '../../base/archive/tar.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'

/** The version of the fake Chromium. */
export const CHROMIUM = '156.0.0.1'
const NEWER = '157.0.0.0'
/** The file with the text. */
const TEXT = 'Text'
const SLOW_MS = 2_000
const PACK_MS = 10_000
const LARGE_BYTES = 3 * 1024 * 1024

/** The data of a fake browser. */
export interface Memory {
  text: string
}

export function pretendProfile(memory: Memory): Profile {
  let isTaken = false
  return {
    async load(body, options, signal) {
      if (isTaken) throw fault.conflict('this session has a profile already, or is just getting one')
      isTaken = true
      try {
        const text: Buffer[] = []
        const sink = { directory() {}, file: (path: string) => ({ write: (piece: Buffer) => void (path === TEXT && text.push(piece)), end() {} }) }
        const { manifest } = await readArchive(body, sink, options, signal)
        if (manifest && isNewer(manifest.chromium, CHROMIUM))
          throw fault.conflict(`the profile was saved by Chromium ${manifest.chromium}, and this session has Chromium ${CHROMIUM}`)
        memory.text = Buffer.concat(text).toString()
        return { chromium: CHROMIUM }
      } catch (error) {
        isTaken = false
        throw error
      }
    },
    async save() {
      const how = memory.text.split(' ', 1)[0]!
      if (how === 'slow') await sleep(SLOW_MS)
      if (how === 'hang') await new Promise(() => {})
      if (how === 'refuse') throw fault.unavailable('its disk is broken')
      const files: [string, Buffer][] = [
        [MANIFEST, Buffer.from(JSON.stringify({ version: 1, chromium: how === 'newer' ? NEWER : CHROMIUM }))],
        [TEXT, Buffer.from(memory.text)],
        ['Noise', how === 'large' ? randomBytes(LARGE_BYTES) : Buffer.alloc(0)],
      ]
      const tar = new TarWriter(AbortSignal.timeout(PACK_MS))
      const packed = buffer(tar.archive)
      for (const [name, content] of files) await tar.add(name, content.length, [content], new Date(0))
      tar.end()
      const archive = zstdCompressSync(await packed)
      return {
        body: how === 'junk' ? Buffer.from('no archive') : how === 'break' ? Readable.from(broken(archive)) : archive,
        headers: { [WHOLE_HEADER]: String(how !== 'dead'), [BYTES_HEADER]: String(files.reduce((sum, [, { length }]) => sum + length, 0)) },
      }
    },
  }
}

async function* broken(archive: Buffer): AsyncGenerator<Buffer> {
  yield archive.subarray(0, archive.length / 2)
  await sleep(20)
  throw new Error('the disk does not answer')
}
