// Screenshots as PNG. When the screen has not changed since a picture that the caller still has, no new one is taken.
import { Readable } from 'node:stream'
import { newId } from '../../base/ids.ts'
import { fault } from '../../http/fault.ts'
import type { Bytes } from '../../http/route.ts'
import type { Pixels, Region } from '../display/display.ts'
import type { Screen } from '../display/display.ts'
import { encodePng } from '../png/png.ts'

/** Takes pictures of one screen, one caller at a time. */
export class Screenshots {
  readonly #screen: Screen
  /** Tells our tags from those of another agent whose screen has the same version number. */
  readonly #self = newId()

  constructor(screen: Screen) {
    this.#screen = screen
  }

  /**
   * Takes the whole screen or a region of it. `known` holds the tags of pictures that the caller has: when one of them still matches the screen, the
   * answer is 304 with that tag. `answer` is called once, as soon as the response can begin; its body is still being encoded then. Resolves when the
   * screen's pixels are not needed any longer. @throws 400 naming the side of a region that is outside the screen
   */
  async take(region: Region | undefined, known: string | undefined, answer: (picture: Bytes) => void, signal: AbortSignal): Promise<void> {
    const part = this.#within(region)
    const tag = (version: number) => `"${[this.#self, version, part.x, part.y, part.width, part.height].join('-')}"`
    if (known) {
      const etag = tag(await this.#screen.version())
      if (known.split(', ').includes(etag)) return answer({ status: 304, headers: { etag }, body: Buffer.alloc(0) })
    }
    const { pixels, version } = await this.#screen.capture(part)
    const body = new Readable({ read() {} })
    answer({ body, headers: { etag: tag(version) } })
    await encodeInto(body, pixels, signal)
  }

  #within(region: Region | undefined): Region {
    const { width, height } = this.#screen.viewport
    const part = region ?? { x: 0, y: 0, width, height }
    const outside = (from: 'x' | 'y', size: 'width' | 'height', limit: number) => {
      if (part[from] >= limit) throw fault.field(`region.${from}`, `lies outside the screen of ${width}x${height}`)
      if (part[from] + part[size] > limit) throw fault.field(`region.${size}`, `reaches outside the screen of ${width}x${height}`)
    }
    outside('x', 'width', width)
    outside('y', 'height', height)
    return part
  }
}

/** Encodes at full speed even for a slow reader, because the next caller needs the pixels. A picture is a few megabytes. */
async function encodeInto(body: Readable, pixels: Pixels, signal: AbortSignal): Promise<void> {
  try {
    for await (const piece of encodePng(pixels)) {
      signal.throwIfAborted()
      body.push(piece)
    }
    body.push(null)
  } catch (error) {
    // The head has been sent already: destroy the body, so that the client sees an incomplete response.
    body.destroy(error as Error)
  }
}
