// The picture of a browser without a display, for viewers: an RFB server in this process. All viewers get the same pictures of the page in front.
import { duplexPair } from 'node:stream'
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import type { Picture } from '../display.ts'
import type { FrontPage } from './front.ts'
import type { CdpInput } from './input.ts'
import { serveRfb, type Frame, type RfbViewer } from './rfb.ts'
import type { CdpScreen } from './screen.ts'

/** The shortest time from one picture to the next: 10 a second. At 1920x1080, each one takes the browser 30 ms of CPU. */
const FRAME_MS = 100
/** The same after a picture that could not be taken. */
const AGAIN_MS = 500
/** The longest wait for a picture: a page that is busy needs 160 ms; one that has never been painted gives none. */
const PICTURE_MS = 5_000
/** Of the JPEG, from 1 to 100. Text has no visible noise. */
const QUALITY = 80
/** For screens so large that a picture does not fit into an event of the browser (4 MiB). */
const LEAST_QUALITY = 10

export interface CdpPicture extends Picture {
  /** Ends all connections. */
  close(): void
}

export function openPicture(
  front: FrontPage,
  screen: Pick<CdpScreen, 'viewport' | 'cursor' | 'watch' | 'drawn'>,
  input: Pick<CdpInput, 'at'>,
  log: Log,
): CdpPicture {
  /** Viewers, and what disconnects them. */
  const viewers = new Map<RfbViewer, () => void>()
  let unwatch = () => {}
  let frame: Frame | undefined
  /** What the last picture shows, as {@link CdpScreen.drawn}; undefined: it has to be taken again. */
  let shows: number | undefined
  let isTaking = false
  let next: NodeJS.Timeout | undefined
  let earliest = 0
  let quality = QUALITY

  /** Gives those who wait what they do not have yet: the last picture, or a new one if the page has drawn since. While nobody waits, nothing is done. */
  function serve(): void {
    if (isTaking || next || !Array.from(viewers.keys()).some(({ isWaiting }) => isWaiting)) return
    const begin = () => {
      next = undefined
      earliest = performance.now() + FRAME_MS
      if (shows === screen.drawn) show()
      else void take()
    }
    next = setTimeout(begin, Math.max(0, earliest - performance.now())).unref()
  }

  function show(): void {
    const pointer = screen.cursor.hidden ? undefined : input.at
    if (frame) for (const viewer of viewers.keys()) if (viewer.isWaiting) viewer.show(frame, pointer)
  }

  async function take(): Promise<void> {
    isTaking = true
    shows = screen.drawn
    try {
      const taken = await takeFrame()
      if (!frame?.jpeg.equals(taken.jpeg)) frame = taken
    } catch (err) {
      // The page has closed, or has never been painted, or the browser has ended. Viewers keep the last picture.
      log.debug({ err }, 'there is no picture of the page in front')
      shows = undefined
      earliest = performance.now() + AGAIN_MS
    }
    isTaking = false
    show()
    serve()
  }

  /**
   * The page in front, as the first frame of a screencast. Unlike a screenshot, it draws nothing, so it is no change itself, and it neither waits for a busy page
   * or a dialog nor disturbs a change of the size. A session of its own: its frames cannot be those of another screencast.
   */
  function takeFrame(): Promise<Frame> {
    return front.use(async ({ targetId }) => {
      const { pipe } = await front.all()
      await using page = await pipe.session(targetId, { limitMs: PICTURE_MS })
      const first = Promise.withResolvers<string>()
      first.promise.catch(() => {}) // if the screencast does not start, nobody waits for it
      page.on('Page.screencastFrame', ({ data }) => first.resolve(data))
      const offLost = pipe.onLostEvent((method) => {
        if (method !== 'Page.screencastFrame') return
        quality = Math.max(LEAST_QUALITY, quality >> 1)
        first.reject(new Error('the picture is too large'))
      })
      try {
        const { width, height } = screen.viewport
        await page.send('Page.startScreencast', { format: 'jpeg', quality, maxWidth: width, maxHeight: height }, { limitMs: PICTURE_MS })
        const jpeg = Buffer.from(await within('a picture of the page', PICTURE_MS, first.promise, page.detached), 'base64')
        return { jpeg, ...sizeOf(jpeg) }
      } finally {
        offLost()
      }
    })
  }

  return {
    async connect() {
      const [server, client] = duplexPair()
      // The ends of a pair do not close each other.
      client.once('close', () => server.destroy())
      server.once('close', () => client.destroy())
      const viewer = serveRfb(server, frame ?? screen.viewport, serve)
      server.once('close', () => {
        viewers.delete(viewer)
        if (viewers.size > 0) return
        unwatch()
        clearTimeout(next)
        next = undefined
      })
      viewers.set(viewer, () => server.destroy())
      if (viewers.size > 1) return client
      // Nobody has watched until now.
      frame = undefined
      shows = undefined
      quality = QUALITY
      unwatch = screen.watch(serve)
      return client
    },
    close() {
      for (const disconnect of viewers.values()) disconnect()
    },
  }
}

/** The size of a picture, read from its header. While the viewport changes, a picture may still have the earlier size. @throws when there is none */
function sizeOf(jpeg: Buffer): { width: number; height: number } {
  // ITU T.81, B.1 and B.2.2: segments with their lengths follow the marker of the start; SOF0 to SOF2 have the size.
  for (let at = 2; at + 9 <= jpeg.length; at += 2 + jpeg.readUInt16BE(at + 2)) {
    const marker = jpeg[at + 1]!
    if (marker >= 0xc0 && marker <= 0xc2) return { height: jpeg.readUInt16BE(at + 5), width: jpeg.readUInt16BE(at + 7) }
  }
  throw new Error('the browser sent no JPEG')
}
