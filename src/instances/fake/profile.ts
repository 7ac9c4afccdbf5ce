// A pretended profile: archives are read as by a real agent, kept in memory, and given back as they came.
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { zstdCompressSync } from 'node:zlib'
import { isNewer, readArchive } from '../../agent/profile/archive.ts'
import { BYTES_HEADER, MANIFEST, WHOLE_HEADER } from '../../agent/profile/contract.ts'
import type { Profile } from '../../agent/profile/handlers.ts'
import { fillAfter, TAR_END, tarHeader } from '../../agent/profile/tar.ts'
import { fault } from '../../http/fault.ts'

/** The version of the pretended Chromium. */
const CHROMIUM = '156.0.0.1'

/** The profile of a session that has loaded none. */
const PREFERENCES = Buffer.from('{}')

export function pretendProfile(): Profile {
  let loaded: { archive: Buffer; bytes: number } | undefined
  let isTaken = false
  return {
    async load(body, options, signal) {
      if (isTaken) throw fault.conflict('this session has a profile already, or is just getting one')
      isTaken = true
      try {
        const archive = await buffer(body)
        let bytes = 0
        const sink = { directory() {}, file: () => ({ write: (piece: Buffer) => void (bytes += piece.length), end() {} }) }
        const { manifest } = await readArchive(Readable.from([archive]), sink, options, signal)
        if (manifest && isNewer(manifest.chromium, CHROMIUM))
          throw fault.conflict(`the profile was saved by Chromium ${manifest.chromium}, and this session has Chromium ${CHROMIUM}`)
        loaded = { archive, bytes }
        return { chromium: CHROMIUM }
      } catch (error) {
        isTaken = false
        throw error
      }
    },
    async save() {
      const { archive, bytes } = loaded ?? { archive: fresh(), bytes: PREFERENCES.length }
      return { body: archive, headers: { [WHOLE_HEADER]: 'true', [BYTES_HEADER]: String(bytes) } }
    },
  }
}

function fresh(): Buffer {
  const manifest = Buffer.from(JSON.stringify({ version: 1, chromium: CHROMIUM }))
  const files: [string, Buffer][] = [
    [MANIFEST, manifest],
    ['Preferences', PREFERENCES],
  ]
  const entries = files.flatMap(([name, content]) => [tarHeader(name, content.length, new Date(0)), content, fillAfter(content.length)])
  return zstdCompressSync(Buffer.concat([...entries, TAR_END]))
}
