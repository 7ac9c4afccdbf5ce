// The seam between a display and the tools that use it: none of them asks what kind of display it is. x/ has the one of an X server. Types only.
import type { Duplex } from 'node:stream'
import type { Point } from '../computer/path.ts'
import type { Viewport } from '../session/contract.ts'

/** A display that is open, with a browser's windows on it. */
export interface Display {
  readonly screen: Screen
  readonly windows: WindowManager
  /** Variables of the environment by which programs find it. */
  readonly env: Readonly<Record<string, string>>
  /** Resolves when the display has ended: by itself, or by {@link Display.close}. */
  readonly ended: Promise<void>
  /** The last output of its program. */
  said(): string
  /** Opens what input needs. A browser starts without it, so this is done while it starts. */
  openControls(): Promise<Controls>
  /** The picture for viewers. `onCrash` is called when a program that serves it has ended by itself. */
  openPicture(onCrash: (crash: PictureCrash) => void): Picture
  close(): void
}

export interface Controls {
  readonly input: Input
  readonly keyboard: Keyboard
  readonly clipboard: Clipboard
  readonly drags: Drags
}

export interface Screen {
  readonly viewport: Viewport
  /** Sets size and rate. The viewport must fit into the largest one that the display was started for. */
  resize(viewport: Viewport): Promise<void>
  /** Whether the mouse cursor is part of the picture. */
  readonly cursor: Cursor
  /** Equal numbers mean that the screen has not changed between the calls; NaN: unknown without a capture. Far cheaper than a capture. */
  version(): Promise<number>
  /** The current pixels of a region. A capture falls between two drawing requests, never into one. Valid until the next capture. */
  capture(region: Region): Promise<Captured>
  /** As {@link Screen.capture}, for the whole screen and into the caller's memory: `room` returns a buffer for the current size. */
  copy(room: (viewport: Viewport) => Buffer): Promise<Viewport & Pick<Captured, 'version'>>
  /** Calls `onChange` when the screen has changed since its last capture, until the returned function is called. After one call it may stay silent until the next capture. */
  watch(onChange: () => void): () => void
  /** Called after each resize. */
  onResize(listener: () => Promise<void>): void
}

export interface Captured {
  pixels: Pixels
  /** The value of {@link Screen.version} as long as the screen shows these pixels. */
  version: number
}

/** The end of a program that serves the picture: whether it was still starting, and its process. */
export interface PictureCrash {
  service: 'x0tigervnc'
  phase: 'startup' | 'running'
  pid: number | undefined
}

/** The screen as its viewers see it. It costs nothing while nobody is connected. */
export interface Picture {
  /**
   * A connection to a server of RFB 3.8 without authentication, which takes no input. It closes when there is no picture any more; the viewer may connect again.
   * @throws when the server does not start, or with the signal's reason
   */
  connect(signal: AbortSignal): Promise<Duplex>
}

/** A part of the screen, in pixels. */
export interface Region {
  x: number
  y: number
  width: number
  height: number
}

/** Rows of pixels, 4 bytes each (blue, green, red, unused), `stride` bytes from one row to the next. */
export interface Pixels {
  data: Buffer
  stride: number
  width: number
  height: number
}

export interface Cursor {
  readonly hidden: boolean
  hide(hidden: boolean): void
}

export interface WindowManager {
  /** Whether its windows always fill the screen, because there are no others. */
  readonly alwaysFull: boolean
  /** Announces that the session is about to put a window into full screen: Chromium's "press Esc" notice is then removed. */
  expectNotice(): void
  /** The state of the window in front, and when it last left full screen (by `performance.now()`); undefined while there is none. */
  front(): { fullscreen: boolean; leftFullscreen?: number } | undefined
  /** Resolves when the program in front has handled every event sent to it so far. @throws WaitTimeout when it does not answer */
  caughtUp(): Promise<void>
  /** The same for a caller that continues in any case: resolves with false after 2 s without an answer, and immediately while the program hangs. */
  answers(): Promise<boolean>
}

/** Real input on a display, like that of a mouse and a keyboard. The fake driver has its own implementation. */
export interface Input {
  move(x: number, y: number): void
  key(code: number, down: boolean): void
  /** Buttons by their number in the X protocol. `afterMs`: the display waits this long before it; later input waits, too. */
  button(number: number, down: boolean, afterMs?: number): void
  /** Where the pointer is. The answer comes after all earlier input has been processed. */
  pointer(): Promise<Point>
  /** What is down now: keys by their codes, buttons by their number. */
  held(): Promise<{ keys: number[]; buttons: number[] }>
}

/** A key, and whether it needs Shift. */
export interface Stroke {
  code: number
  shift: boolean
}

export interface Keyboard {
  /**
   * The strokes for each keysym, in the given order. A keysym without a key is mapped to a spare key first. Only {@link Keyboard.spares} can be
   * mapped at once: do not ask for more of those in one call, including `held`, the keycodes that are down.
   */
  strokes(keysyms: readonly number[], held?: readonly number[]): Promise<Stroke[]>
  /** Reads the key map again if it has changed. {@link Keyboard.spares} and {@link Keyboard.has} tell of what was read last. */
  refresh(): Promise<void>
  /** How many spare keys there are. */
  readonly spares: number
  /** Whether a key has this keysym, so that no spare key is needed. */
  has(keysym: number): boolean
  /** Whether Caps Lock is on. */
  capsLock(): Promise<boolean>
  /** Switches Caps Lock without pressing its key, so no page gets an event. */
  setCapsLock(on: boolean): void
}

export interface Clipboard {
  /** The text in the clipboard; empty when there is none. @throws 503 when the owner does not send it */
  read(signal: AbortSignal): Promise<string>
  /** Sets the text; every later paste gets it. */
  write(text: string, signal: AbortSignal): Promise<void>
  /** Whether the owner has changed after `since` (of `performance.now()`): resolves when it has, or at `until`. */
  changed(since: number, until: number): Promise<boolean>
}

export interface Drags {
  /** Whether a drag goes on, as far as events tell that came before the last answer of the server. */
  readonly isOn: boolean
  /** Grows with each new shape of the cursor. While something is dragged, the shape tells whether it could be dropped. */
  readonly cursors: number
  /** Resolves when the drag has ended after its button was released; at last when a program takes no notice of that. */
  ended(signal: AbortSignal): Promise<void>
}
