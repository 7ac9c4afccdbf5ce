// The screen: its size, resizing, and its pixels.
import { Mutex } from '../../../base/mutex.ts'
import type { Viewport } from '../../session/contract.ts'
import type { Screen } from '../display.ts'
import { watchChanges } from './changes.ts'
import { openCursor } from './cursor.ts'
import { openFramebuffer } from './framebuffer.ts'
import type { XConnection } from './x11.ts'

// Blanking around the picture. Any values work: with the pixel clock they give the refresh rate, which sets Chromium's frame rate.
const H_BLANK = 40
const V_BLANK = 10
const MM_PER_PIXEL = 25.4 / 96

/** Opens the screen of a connection and sets its first size. */
export async function openScreen(connection: XConnection, framebufferFile: string, first: Viewport): Promise<Screen> {
  const { x, root, randr, ask, sync } = connection
  const framebuffer = openFramebuffer(framebufferFile)
  const changes = await watchChanges(connection)
  const cursor = openCursor(connection, changes.touch)
  const listeners: (() => Promise<void>)[] = []
  let viewport = first

  // One at a time: the first to finish would release the other's grab.
  const moments = new Mutex()
  const atOneMoment = <T>(read: (version: number) => T): Promise<T> =>
    moments.run(async () => {
      // With the server grabbed, no other client draws, so all pixels are from the same moment.
      x.GrabServer()
      try {
        const version = await changes.mark()
        // The server removes its software cursor while it draws and restores it before the next request. This request makes it restore the cursor.
        await sync()
        return read(version)
      } finally {
        x.UngrabServer()
      }
    })

  async function modeFor({ width, height, refresh_rate }: Viewport): Promise<{ mode: number; crtc: number; output: number; time: number }> {
    const {
      config_timestamp: time,
      crtcs,
      outputs,
      modeinfos,
    } = await ask((done: Parameters<typeof randr.GetScreenResources>[1]) => randr.GetScreenResources(root, done))
    const [crtc, output] = [crtcs[0]!, outputs[0]!]
    const name = `${width}x${height}_${refresh_rate}`
    const known = modeinfos.find((mode) => mode.name === name)
    if (known) return { mode: known.id, crtc, output, time }
    const [hTotal, vTotal] = [width + H_BLANK, height + V_BLANK]
    const made = await ask<number | { mode: number }>((done) =>
      randr.CreateMode(
        root,
        {
          id: 0,
          width,
          height,
          dot_clock: Math.round(hTotal * vTotal * refresh_rate),
          modeflags: 0,
          name,
          h_skew: 0,
          h_sync_start: width + 8,
          h_sync_end: width + 16,
          h_total: hTotal,
          v_sync_start: height + 2,
          v_sync_end: height + 4,
          v_total: vTotal,
        },
        done,
      ),
    )
    const mode = typeof made === 'number' ? made : made.mode
    randr.AddOutputMode(output, mode)
    return { mode, crtc, output, time }
  }

  async function resize(wanted: Viewport): Promise<void> {
    const { mode, crtc, output, time } = await modeFor(wanted)
    // RandR does not allow a screen smaller than its output's mode, so the output is off while the size changes.
    const set = (to: number, outputs: number[]) => ask<{ status: number }>((done) => randr.SetCrtcConfig(crtc, 0, time, 0, 0, to, 1, outputs, done))
    await set(0, [])
    randr.SetScreenSize(root, wanted.width, wanted.height, Math.round(wanted.width * MM_PER_PIXEL), Math.round(wanted.height * MM_PER_PIXEL))
    const { status } = await set(mode, [output])
    if (status !== 0) throw new Error(`the X server refused ${wanted.width}x${wanted.height} at ${wanted.refresh_rate} Hz (${status})`)
    viewport = wanted
    changes.touch()
    for (const listener of listeners) await listener()
  }

  await resize(first)
  return {
    get viewport() {
      return viewport
    },
    resize,
    cursor,
    version: changes.version,
    capture: (region) => atOneMoment((version) => ({ pixels: framebuffer.read(region), version })),
    copy: (room) =>
      atOneMoment((version) => {
        framebuffer.copy({ x: 0, y: 0, ...viewport }, room(viewport))
        return { ...viewport, version }
      }),
    watch: changes.watch,
    onResize: (listener) => void listeners.push(listener),
  }
}
