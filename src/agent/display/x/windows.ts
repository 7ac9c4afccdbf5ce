// A minimal window manager: browser windows fill the screen until a client says otherwise, dialogs are centred, and one window has the focus. Without
// a window manager Chromium never considers itself focused, and a page's request for full screen gets no answer.
import type { Log } from '../../../base/log.ts'
import type { Screen, WindowManager } from '../display.ts'
import { openPing } from './ping.ts'
import { eventMask, type XConnection, type Xid } from './x11.ts'

interface XEvent {
  name: string
  wid: Xid
  x: number
  y: number
  width: number
  height: number
  mask: number
  message_type: number
  data: number[]
  overrideRedirect?: boolean
}

/** Names from EWMH; Chromium checks which of these are supported before it uses them. */
const ATOMS = [
  '_NET_SUPPORTED',
  '_NET_SUPPORTING_WM_CHECK',
  '_NET_WM_NAME',
  'UTF8_STRING',
  '_NET_ACTIVE_WINDOW',
  '_NET_CLIENT_LIST',
  '_NET_WM_STATE',
  '_NET_WM_STATE_FULLSCREEN',
  '_NET_WM_STATE_MAXIMIZED_VERT',
  '_NET_WM_STATE_MAXIMIZED_HORZ',
  '_NET_WM_STATE_HIDDEN',
  '_NET_WM_STATE_FOCUSED',
  '_NET_FRAME_EXTENTS',
  '_NET_WM_WINDOW_TYPE',
  '_NET_WM_WINDOW_TYPE_DIALOG',
  'WM_STATE',
  'WM_CHANGE_STATE',
  '_NET_WORKAREA',
  '_NET_CLOSE_WINDOW',
  'WM_PROTOCOLS',
  'WM_DELETE_WINDOW',
  'WM_TAKE_FOCUS',
] as const
type Atom = (typeof ATOMS)[number]

const REPLACE = 0
const REVERT_TO_POINTER_ROOT = 1
/** WM_STATE and WM_CHANGE_STATE (ICCCM 4.1.3.1). */
const NORMAL_STATE = 1
const ICONIC_STATE = 3
/** Which values a ConfigureRequest asks for. */
const CONFIGURE = { x: 1, y: 2, width: 4, height: 8 } as const

interface Managed {
  id: Xid
  dialog: boolean
  fullscreen: boolean
  /** When it last left full screen, by `performance.now()`. */
  leftFullscreen?: number
  maximized: boolean
  minimized: boolean
  /** Where a window is while it is neither full screen nor maximized. For dialogs only the size matters. */
  x: number
  y: number
  width: number
  height: number
  /** How many UnmapNotify events to expect from our own unmap requests. */
  unmaps: number
}

/** How long after the switch Chromium's "press Esc" notice may appear; 30 ms were seen. */
const NOTICE_MS = 3_000
/** The notice is a low strip in the upper middle. Menus and tooltips are elsewhere or higher. */
const NOTICE_MAX_HEIGHT = 120

/** Events that a window manager handles. The connection receives many others. */
const HANDLED = new Set(['MapRequest', 'ConfigureRequest', 'MapNotify', 'UnmapNotify', 'DestroyNotify', 'ClientMessage'])

/** Becomes the window manager of the screen, for as long as the connection lives. */
export async function manageWindows(connection: XConnection, screen: Screen, log: Log): Promise<WindowManager> {
  const { x, root, ask, sync } = connection
  const atoms = Object.fromEntries(await Promise.all(ATOMS.map(async (name) => [name, await connection.atom(name)]))) as Record<Atom, number>
  /** In stacking order, the top one last. */
  const windows: Managed[] = []

  const cardinals = (window: Xid, property: number, type: number, values: number[]) => x.ChangeProperty(REPLACE, window, property, type, 32, values)
  const list = (): void =>
    cardinals(
      root,
      atoms._NET_CLIENT_LIST,
      x.atoms.WINDOW!,
      windows.map(({ id }) => id),
    )

  /** Reads a property as 32-bit values; empty when the window lacks it or has been destroyed. */
  async function values(window: Xid, property: number): Promise<number[]> {
    const { data } = await ask<{ data: Buffer }>((done) => x.GetProperty(0, window, property, 0, 0, 64, done)).catch(() => ({ data: Buffer.alloc(0) }))
    return Array.from({ length: data.length >> 2 }, (_, index) => data.readUInt32LE(index * 4))
  }

  function boundsOf(window: Managed): { x: number; y: number; width: number; height: number } {
    const { width, height } = screen.viewport
    if (window.dialog) {
      const [w, h] = [Math.min(window.width, width), Math.min(window.height, height)]
      return { x: (width - w) >> 1, y: (height - h) >> 1, width: w, height: h }
    }
    return window.fullscreen || window.maximized ? { x: 0, y: 0, width, height } : { x: window.x, y: window.y, width: window.width, height: window.height }
  }

  function place(window: Managed): void {
    const bounds = boundsOf(window)
    x.ConfigureWindow(window.id, bounds)
    // A window that asked for another size but keeps its own must be notified (ICCCM 4.1.5).
    if (!window.dialog) x.SendEvent(window.id, false, eventMask.StructureNotify!, { name: 'ConfigureNotify', wid: window.id, wid1: window.id, ...bounds })
  }

  function tellState(window: Managed): void {
    const state = window.maximized ? [atoms._NET_WM_STATE_MAXIMIZED_VERT, atoms._NET_WM_STATE_MAXIMIZED_HORZ] : []
    if (window.fullscreen) state.push(atoms._NET_WM_STATE_FULLSCREEN)
    if (window.minimized) state.push(atoms._NET_WM_STATE_HIDDEN)
    else if (windows.at(-1) === window) state.push(atoms._NET_WM_STATE_FOCUSED)
    cardinals(window.id, atoms._NET_WM_STATE, x.atoms.ATOM!, state)
    cardinals(window.id, atoms.WM_STATE, atoms.WM_STATE, [window.minimized ? ICONIC_STATE : NORMAL_STATE, 0])
  }

  function focus(window: Managed | undefined): void {
    if (!window) {
      cardinals(root, atoms._NET_ACTIVE_WINDOW, x.atoms.WINDOW!, [0])
      return x.SetInputFocus(root, REVERT_TO_POINTER_ROOT)
    }
    if (window.minimized) {
      window.minimized = false
      x.MapWindow(window.id)
    }
    const before = windows.at(-1)
    windows.splice(windows.indexOf(window), 1)
    windows.push(window)
    x.RaiseWindow(window.id)
    x.SetInputFocus(window.id, REVERT_TO_POINTER_ROOT)
    cardinals(root, atoms._NET_ACTIVE_WINDOW, x.atoms.WINDOW!, [window.id])
    if (before && before !== window) tellState(before)
    tellState(window)
  }

  /** The topmost window that is not minimized. */
  const front = (): Managed | undefined => windows.findLast(({ minimized }) => !minimized)

  /** Unmaps a window; a request to map or activate it shows it again. */
  function minimize(window: Managed): void {
    if (window.minimized) return
    window.minimized = true
    window.unmaps++
    x.UnmapWindow(window.id)
    windows.splice(windows.indexOf(window), 1)
    windows.unshift(window)
    tellState(window)
    focus(front())
  }

  async function adopt(id: Xid): Promise<void> {
    const known = windows.find((window) => window.id === id)
    if (known) return known.minimized ? focus(known) : x.MapWindow(id)
    const [transientFor, types, state, geometry] = await Promise.all([
      values(id, x.atoms.WM_TRANSIENT_FOR!),
      values(id, atoms._NET_WM_WINDOW_TYPE),
      values(id, atoms._NET_WM_STATE),
      ask<{ xPos: number; yPos: number; width: number; height: number }>((done) => x.GetGeometry(id, done)),
    ])
    const dialog = transientFor.some((owner) => owner !== 0 && owner !== root) || types.includes(atoms._NET_WM_WINDOW_TYPE_DIALOG)
    const { xPos, yPos, width, height } = geometry
    const fullscreen = state.includes(atoms._NET_WM_STATE_FULLSCREEN)
    const window: Managed = { id, dialog, fullscreen, maximized: !dialog, minimized: false, x: xPos, y: yPos, width, height, unmaps: 0 }
    windows.push(window)
    cardinals(id, atoms._NET_FRAME_EXTENTS, x.atoms.CARDINAL!, [0, 0, 0, 0])
    place(window)
    x.MapWindow(id)
    focus(window)
    list()
  }

  function forget(id: Xid): void {
    const index = windows.findIndex((window) => window.id === id)
    if (index < 0) return
    windows.splice(index, 1)
    list()
    focus(front())
  }

  // Data of a _NET_WM_STATE message: [0 remove, 1 add, 2 toggle; first property; second property].
  function changeState(window: Managed, [action, ...properties]: number[]): void {
    const changed = (before: boolean) => (action === 2 ? !before : action === 1)
    if (properties.includes(atoms._NET_WM_STATE_FULLSCREEN)) {
      const before = window.fullscreen
      window.fullscreen = changed(before)
      if (before && !window.fullscreen) window.leftFullscreen = performance.now()
    }
    // One of the two directions means both: there is no half-maximized state.
    if (!window.dialog && (properties.includes(atoms._NET_WM_STATE_MAXIMIZED_VERT) || properties.includes(atoms._NET_WM_STATE_MAXIMIZED_HORZ)))
      window.maximized = changed(window.maximized)
    tellState(window)
    place(window)
  }

  /**
   * Handles a window's request for a size. A dialog stays centred. A window that fills the screen keeps doing so and gets the requested size when it
   * is restored.
   */
  function configure(window: Managed, event: XEvent): void {
    const asked = (Object.keys(CONFIGURE) as (keyof typeof CONFIGURE)[]).filter((name) => event.mask & CONFIGURE[name])
    if (!window.fullscreen) for (const name of asked) window[name] = event[name]
    place(window)
  }

  let noticeUntil = 0
  async function dropNotice(id: Xid): Promise<void> {
    if (performance.now() > noticeUntil) return
    const { xPos, yPos, width, height } = await ask<{ xPos: number; yPos: number; width: number; height: number }>((done) => x.GetGeometry(id, done))
    const middle = Math.abs(xPos + width / 2 - screen.viewport.width / 2) < screen.viewport.width / 4
    if (!middle || height > NOTICE_MAX_HEIGHT || yPos > NOTICE_MAX_HEIGHT) return
    noticeUntil = 0
    x.UnmapWindow(id)
  }

  async function onEvent(event: XEvent): Promise<void> {
    const window = windows.find(({ id }) => id === event.wid)
    switch (event.name) {
      case 'MapRequest':
        return await adopt(event.wid)
      case 'ConfigureRequest':
        if (window) return configure(window, event)
        return x.ConfigureWindow(event.wid, { x: event.x, y: event.y, width: event.width, height: event.height })
      case 'MapNotify':
        if (event.overrideRedirect) await dropNotice(event.wid)
        return
      case 'UnmapNotify':
        if (window && window.unmaps > 0) return void window.unmaps--
        return forget(event.wid)
      case 'DestroyNotify':
        return forget(event.wid)
      case 'ClientMessage':
        if (!window) return
        if (event.message_type === atoms._NET_WM_STATE) return changeState(window, event.data)
        if (event.message_type === atoms._NET_ACTIVE_WINDOW) return focus(window)
        if (event.message_type === atoms.WM_CHANGE_STATE && event.data[0] === ICONIC_STATE) return minimize(window)
    }
  }
  // Handle events in sequence: adding a window waits for the server, and events about that window in between would not find it.
  let turn = Promise.resolve()
  // A window may be destroyed before its event is handled; the next event reports that.
  x.on('event', (event: XEvent) => {
    if (HANDLED.has(event.name)) turn = turn.then(() => onEvent(event)).catch((err: unknown) => log.debug({ err, event: event.name }, 'a window event failed'))
  })

  const check = x.AllocID()
  x.CreateWindow(check, root, -1, -1, 1, 1)
  for (const window of [root, check]) cardinals(window, atoms._NET_SUPPORTING_WM_CHECK, x.atoms.WINDOW!, [check])
  x.ChangeProperty(REPLACE, check, atoms._NET_WM_NAME, atoms.UTF8_STRING, 8, 'cob')
  cardinals(root, atoms._NET_SUPPORTED, x.atoms.ATOM!, Object.values(atoms))
  await ask<void>((done) => x.ChangeWindowAttributes(root, { eventMask: eventMask.SubstructureRedirect! | eventMask.SubstructureNotify! }, done))
  const tellArea = () => cardinals(root, atoms._NET_WORKAREA, x.atoms.CARDINAL!, [0, 0, screen.viewport.width, screen.viewport.height])
  tellArea()
  screen.onResize(async () => {
    tellArea()
    windows.forEach(place)
    await sync()
  })
  const ping = await openPing(connection)
  await sync()
  return {
    alwaysFull: false,
    expectNotice: () => void (noticeUntil = performance.now() + NOTICE_MS),
    front,
    caughtUp: () => ping.handled(front()?.id),
    answers: () => ping.answers(front()?.id),
  }
}
