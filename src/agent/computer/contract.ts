// The screen, pointer and keyboard for callers. Paths are the agent's; the control plane offers them below a browser.
import * as z from 'zod'
import { bytes, json, none, route } from '../../http/route.ts'

const group = 'Browser Computer Controls'

/** The longest action or batch of actions; a longer one is refused before it starts. */
export const MAX_ACTION_MS = 300_000

/** The longest wait inside a batch. */
const MAX_SLEEP_MS = 30_000

/** Most clicks in one call: ten times what a page can tell apart (`detail` 1, 2, 3). */
const MAX_CLICKS = 30

/** Most points in the path of one drag; smoothing adds more. */
const MAX_POINTS = 1_000

/** Notches of the wheel in one direction: a page of a million pixels. */
const MAX_NOTCHES = 10_000

/** Actions of one batch. */
export const MAX_ACTIONS = 1_000

/** The highest typo chance. */
const MAX_TYPO_CHANCE = 0.1

/** Text typed in one call, in UTF-16 code units; for longer texts use the clipboard. */
const MAX_TEXT = 100_000

/** Text in the clipboard, in UTF-16 code units. */
export const MAX_CLIPBOARD_CHARS = 8 * 1024 * 1024
/** JSON may write one code unit as six bytes (`\u00e9`). */
const MAX_CLIPBOARD_BODY = MAX_CLIPBOARD_CHARS * 6 + 1024

const Pixel = z.int().min(0).max(65_535)
const Extent = z.int().min(1).max(65_535)
/** Milliseconds; a value above {@link MAX_ACTION_MS} is refused when the action is planned. */
const Millis = z.int().min(0)

/** The name of a key: an X11 keysym (`Return`, `F5`), an alias (`Enter`, `Cmd`), or one character. */
const KeyName = z.string().min(1).max(64)
/** Keys held during the action. */
const HoldKeys = z.array(KeyName).max(16)

export const ScreenshotBody = z.strictObject({
  /** Only this part of the screen, in pixels. */
  region: z.strictObject({ x: Pixel, y: Pixel, width: Extent, height: Extent }).optional(),
})

export const ClickMouseBody = z.strictObject({
  x: Pixel,
  y: Pixel,
  button: z.enum(['left', 'right', 'middle', 'back', 'forward']).default('left'),
  /** `down` leaves the button pressed until an `up`. */
  click_type: z.enum(['down', 'up', 'click']).default('click'),
  hold_keys: HoldKeys.optional(),
  /** 2 is a double click. Only with `click_type` click. */
  num_clicks: z.int().min(1).max(MAX_CLICKS).default(1),
})
export type ClickMouse = z.output<typeof ClickMouseBody>

export const MoveMouseBody = z.strictObject({
  x: Pixel,
  y: Pixel,
  /** Along a human-like curve, or at once. */
  smooth: z.boolean().default(true),
  /** Length of a smooth move in milliseconds; chosen by distance when absent. */
  duration_ms: z.int().min(50).max(5_000).optional(),
  hold_keys: HoldKeys.optional(),
})
export type MoveMouse = z.output<typeof MoveMouseBody>

export const DragMouseBody = z.strictObject({
  /** Points in screen pixels, at least two: where the button goes down, points on the way, where it goes up. */
  path: z
    .array(z.tuple([Pixel, Pixel]))
    .min(2)
    .max(MAX_POINTS),
  button: z.enum(['left', 'middle', 'right']).default('left'),
  /** Milliseconds between pressing the button and the first movement. */
  delay: Millis.default(0),
  /** Human-like curves instead of straight lines. */
  smooth: z.boolean().default(true),
  /** Length of a smooth drag in milliseconds; chosen by distance when absent. */
  duration_ms: z.int().min(50).max(10_000).optional(),
  /** Straight drags: movements from one point to the next. */
  steps_per_segment: z.int().min(1).default(10),
  /** Straight drags: milliseconds after each movement. */
  step_delay_ms: Millis.default(50),
  /** Keys held from before the button goes down until it is up again. */
  hold_keys: HoldKeys.optional(),
})
export type DragMouse = z.output<typeof DragMouseBody>

export const ScrollBody = z.strictObject({
  x: Pixel,
  y: Pixel,
  /** Notches of the wheel; positive is right. */
  delta_x: z.int().min(-MAX_NOTCHES).max(MAX_NOTCHES).default(0),
  /** Notches of the wheel; positive is down. */
  delta_y: z.int().min(-MAX_NOTCHES).max(MAX_NOTCHES).default(0),
  hold_keys: HoldKeys.optional(),
})
export type Scroll = z.output<typeof ScrollBody>

export const PressKeyBody = z.strictObject({
  /** Keys or combinations (`ctrl+shift+t`): tapped one after the other, or, with `duration`, all held together. */
  keys: z.array(KeyName).min(1).max(256),
  /** Milliseconds the keys are held; 0 taps them. */
  duration: Millis.default(0),
  hold_keys: HoldKeys.optional(),
})
export type PressKey = z.output<typeof PressKeyBody>

export const TypeTextBody = z.strictObject({
  /** Any Unicode text. Line breaks are the Return key, tabs the Tab key; other control characters have no key. */
  text: z.string().max(MAX_TEXT),
  /** Milliseconds from one character to the next. With `smooth` it is about their mean; pauses after sentences and corrections are added. */
  delay: Millis.optional(),
  /** The uneven rhythm of a person instead of an even one. Default false, but true when `typo_chance` is given. */
  smooth: z.boolean().optional(),
  /** The fraction of letters that is first mistyped and then corrected, as people do. */
  typo_chance: z.number().min(0).max(MAX_TYPO_CHANCE).default(0),
})
export type TypeText = z.output<typeof TypeTextBody>

export const CursorBody = z.strictObject({ hidden: z.boolean() })
export type SetCursor = z.output<typeof CursorBody>

export const SleepBody = z.strictObject({ duration_ms: z.int().min(0).max(MAX_SLEEP_MS) })
export type Sleep = z.output<typeof SleepBody>

/** One action of a batch: `type` names it, and the field of the same name holds its parameters. */
const Action = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('click_mouse'), click_mouse: ClickMouseBody }),
  z.strictObject({ type: z.literal('move_mouse'), move_mouse: MoveMouseBody }),
  z.strictObject({ type: z.literal('type_text'), type_text: TypeTextBody }),
  z.strictObject({ type: z.literal('press_key'), press_key: PressKeyBody }),
  z.strictObject({ type: z.literal('scroll'), scroll: ScrollBody }),
  z.strictObject({ type: z.literal('drag_mouse'), drag_mouse: DragMouseBody }),
  z.strictObject({ type: z.literal('set_cursor'), set_cursor: CursorBody }),
  z.strictObject({ type: z.literal('sleep'), sleep: SleepBody }),
])
export type Action = z.output<typeof Action>

export const BatchBody = z.strictObject({ actions: z.array(Action).min(1).max(MAX_ACTIONS) })

/** A call that uses the pointer or the keyboard and answers when the action is done. */
const act = <B extends z.ZodType>(path: string, id: string, summary: string, body: B) =>
  route({ method: 'POST', path: `/computer/${path}`, id, group, summary, body, deadlineMs: MAX_ACTION_MS + 10_000, reply: none(200) })

export const computer = {
  batchActions: act('batch', 'batchActions', 'Run several actions in order', BatchBody),
  captureScreenshot: route({
    method: 'POST',
    path: '/computer/screenshot',
    id: 'captureScreenshot',
    reads: true,
    group,
    summary: 'Take a screenshot',
    body: ScreenshotBody,
    bodyOptional: true,
    revalidates: true,
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: bytes('image/png'),
  }),
  clickMouse: act('click_mouse', 'clickMouse', 'Click a mouse button at a point', ClickMouseBody),
  dragMouse: act('drag_mouse', 'dragMouse', 'Drag the mouse along a path', DragMouseBody),
  getMousePosition: route({
    method: 'POST',
    path: '/computer/get_mouse_position',
    id: 'getMousePosition',
    reads: true,
    group,
    summary: 'Get the position of the mouse pointer',
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: json(z.object({ x: z.int(), y: z.int() })),
  }),
  moveMouse: act('move_mouse', 'moveMouse', 'Move the mouse pointer', MoveMouseBody),
  pressKey: act('press_key', 'pressKey', 'Press keys', PressKeyBody),
  readClipboard: route({
    method: 'POST',
    path: '/computer/clipboard/read',
    id: 'readClipboard',
    right: 'use',
    reads: true,
    group,
    summary: 'Read the text of the clipboard',
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: json(z.object({ text: z.string() })),
  }),
  scroll: act('scroll', 'scroll', 'Turn the mouse wheel at a point', ScrollBody),
  setCursorVisibility: route({
    method: 'POST',
    path: '/computer/cursor',
    id: 'setCursorVisibility',
    group,
    summary: 'Hide or show the mouse cursor',
    body: CursorBody,
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: json(z.object({ ok: z.boolean() })),
  }),
  typeText: act('type', 'typeText', 'Type text', TypeTextBody),
  writeClipboard: route({
    method: 'POST',
    path: '/computer/clipboard/write',
    id: 'writeClipboard',
    group,
    summary: 'Write text to the clipboard',
    body: z.strictObject({ text: z.string().max(MAX_CLIPBOARD_CHARS) }),
    maxBodyBytes: MAX_CLIPBOARD_BODY,
    deadlineMs: MAX_ACTION_MS + 10_000,
    reply: none(200),
  }),
}
