// The screen and the hands on it, as callers see them. Paths are the agent's; the control plane offers them under a browser.
import { z } from 'zod'
import { bytes, none, route } from '../../http/route.ts'

const group = 'Browser Computer Controls'

const Pixel = z.int().min(0).max(65_535)
const Extent = z.int().min(1).max(65_535)

/** X11 keysym names or single characters, held while something else is done. */
const HoldKeys = z.array(z.string().min(1).max(64)).max(16)

export const ScreenshotBody = z.strictObject({
  /** Only this part of the screen, in pixels. */
  region: z.strictObject({ x: Pixel, y: Pixel, width: Extent, height: Extent }).optional(),
})

/** Points on the way of one drag; more come from smoothing. */
const MAX_POINTS = 1_000

export const DragMouseBody = z.strictObject({
  /** Points in screen pixels, at least two: where the button goes down, ways, where it goes up. */
  path: z
    .array(z.tuple([Pixel, Pixel]))
    .min(2)
    .max(MAX_POINTS),
  button: z.enum(['left', 'middle', 'right']).default('left'),
  /** Milliseconds between pressing the button and the first movement. */
  delay: z.int().min(0).default(0),
  /** Human-like curves instead of straight lines. */
  smooth: z.boolean().default(true),
  /** Length of a smooth drag in milliseconds; chosen by distance when absent. */
  duration_ms: z.int().min(50).max(10_000).optional(),
  /** Straight drags: movements from one point to the next. */
  steps_per_segment: z.int().min(1).default(10),
  /** Straight drags: milliseconds after each movement. */
  step_delay_ms: z.int().min(0).default(50),
  /** Keys held from before the button goes down until it is up again. */
  hold_keys: HoldKeys.optional(),
})
export type DragMouse = z.output<typeof DragMouseBody>

/** The longest action; one that would take longer is refused before it begins. */
export const MAX_ACTION_MS = 300_000

export const computer = {
  captureScreenshot: route({
    method: 'POST',
    path: '/computer/screenshot',
    id: 'captureScreenshot',
    group,
    summary: 'Take a picture of the screen',
    body: ScreenshotBody,
    bodyOptional: true,
    reply: bytes('image/png'),
  }),
  dragMouse: route({
    method: 'POST',
    path: '/computer/drag_mouse',
    id: 'dragMouse',
    group,
    summary: 'Drag the mouse along a path',
    body: DragMouseBody,
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: none(200),
  }),
}
