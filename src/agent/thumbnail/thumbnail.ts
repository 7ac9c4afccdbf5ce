// Thumbnails of the screen. However many callers ask, one is made at a time, and none while the screen stays the same.
import { newId } from '../../base/ids.ts'
import { abortable } from '../../base/wait.ts'
import type { Screen } from '../display/display.ts'
import { encodePng } from '../png/png.ts'
import { THUMBNAIL_SIDE } from './contract.ts'
import { shrink } from './shrink.ts'

/** The memory for a whole screen is freed after this time without a request. */
const KEEP_MS = 10_000

interface Kept {
  version: number
  tag: string
  png: string
}

/** A picture of the screen, as it is or as it was if nothing has changed since. `tag`: equal tags mean equal pictures; `png`: base64. */
export type Thumbnails = (signal: AbortSignal) => Promise<{ tag: string; png: string }>

export function makeThumbnails(screen: Pick<Screen, 'version' | 'copy'>): Thumbnails {
  /** Distinguishes our tags from those of another agent whose screen has the same version number. */
  const self = newId()
  let kept: Kept | undefined
  let taking: Promise<Kept> | undefined
  let room = Buffer.alloc(0)
  let timer: NodeJS.Timeout | undefined

  async function take(): Promise<Kept> {
    if (kept && kept.version === (await screen.version())) return kept
    const { width, height, version } = await screen.copy(({ width: w, height: h }) => {
      if (room.length !== w * h * 4) room = Buffer.allocUnsafeSlow(w * h * 4)
      return room
    })
    clearTimeout(timer)
    timer = setTimeout(() => (room = Buffer.alloc(0)), KEEP_MS).unref()
    const pieces: Buffer[] = []
    for await (const piece of encodePng(shrink({ data: room, stride: width * 4, width, height }, THUMBNAIL_SIDE))) pieces.push(piece)
    return (kept = { version, tag: `${self}-${version}`, png: Buffer.concat(pieces).toString('base64') })
  }

  return (signal) => {
    // While the session sleeps, the display does not answer. Then all callers wait for the same answer, each with its own timeout.
    taking ??= take().finally(() => (taking = undefined))
    return abortable(taking, signal)
  }
}
