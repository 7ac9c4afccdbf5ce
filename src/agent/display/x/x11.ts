// The one X connection, with promises and types for the requests that we use. The x11 package implements the protocol.
import x11 from 'x11'
import { within } from '../../../base/wait.ts'

const CONNECT_MS = 10_000
/** A round trip takes 0.1 ms; a server that takes this long is dead. */
export const ROUND_TRIP_MS = 5_000

type Callback<T> = (error: Error | null, value: T) => void
/** A window or another resource of the server. */
export type Xid = number

interface Client {
  on(name: string, listener: (event: never) => void): void
  require(name: string, callback: Callback<never>): void
  terminate(): void
  atoms: Record<string, number>
  InternAtom(onlyIfExists: boolean, name: string, callback: Callback<number>): void
  ChangeProperty(mode: number, window: Xid, name: number, type: number, format: 8 | 16 | 32, data: unknown): void
  GetProperty(del: number, window: Xid, name: number, type: number, offset: number, length: number, callback: Callback<{ type: number; data: Buffer }>): void
  ChangeWindowAttributes(window: Xid, values: object, callback?: Callback<void>): void
  DeleteProperty(window: Xid, name: number): void
  SetSelectionOwner(owner: Xid, selection: number, time: number): void
  GetSelectionOwner(selection: number, callback: Callback<Xid>): void
  ConvertSelection(requestor: Xid, selection: number, target: number, property: number, time: number): void
  GetGeometry(window: Xid, callback: Callback<{ xPos: number; yPos: number; width: number; height: number }>): void
  QueryPointer(window: Xid, callback: Callback<{ rootX: number; rootY: number; keyMask: number }>): void
  /** A bit for each key that is down. */
  QueryKeymap(callback: Callback<Buffer>): void
  GetKeyboardMapping(first: number, count: number, callback: Callback<number[][]>): void
  ChangeKeyboardMapping(first: number, keysymsPerKey: number, keysyms: number[]): void
  ConfigureWindow(window: Xid, values: object): void
  MapWindow(window: Xid): void
  UnmapWindow(window: Xid): void
  RaiseWindow(window: Xid): void
  SetInputFocus(window: Xid, revertTo: number): void
  SendEvent(destination: Xid, propagate: boolean, mask: number, event: object): void
  CreateWindow(window: Xid, parent: Xid, x: number, y: number, width: number, height: number, ...rest: unknown[]): void
  AllocID(): Xid
  /** For requests that the package lacks: the sequence number of the last request, and the output stream. */
  seq_num: number
  pack_stream: { put(request: Buffer): void; submit(): void }
  GrabServer(): void
  UngrabServer(): void
}

export interface RandR {
  QueryVersion(major: number, minor: number, callback: Callback<unknown>): void
  GetScreenResources(
    window: Xid,
    callback: Callback<{ config_timestamp: number; crtcs: Xid[]; outputs: Xid[]; modeinfos: { id: number; name: string }[] }>,
  ): void
  CreateMode(window: Xid, mode: object, callback: Callback<number | { mode: number }>): void
  AddOutputMode(output: Xid, mode: number): void
  SetCrtcConfig(
    crtc: Xid,
    time: number,
    configTime: number,
    x: number,
    y: number,
    mode: number,
    rotation: number,
    outputs: Xid[],
    callback: Callback<{ status: number }>,
  ): void
  SetScreenSize(window: Xid, width: number, height: number, mmWidth: number, mmHeight: number): void
}

export interface XTest {
  majorOpcode: number
  FakeInput(type: number, detail: number, time: number, window: Xid, x: number, y: number): void
  KeyPress: number
  KeyRelease: number
  ButtonPress: number
  ButtonRelease: number
  MotionNotify: number
}

/** XInput: devices. */
export interface XInput {
  firstEvent: number
  XIQueryVersion(major: number, minor: number, callback: Callback<unknown>): void
  /** Replaces the events that this connection gets from a device; an empty mask means none. */
  XISelectEvents(window: Xid, masks: { deviceId: number; mask: string[] }): void
  /** Device 0 means all devices. */
  XIQueryDevice(device: number, callback: Callback<{ deviceId: number; use: number; name: string }[]>): void
}

/** XFixes: who owns a selection, and the cursor. */
export interface XFixes {
  SelectSelectionInput(window: Xid, selection: number, mask: number): void
  SelectCursorInput(window: Xid, mask: number): void
  /** The server counts calls per client: each HideCursor needs its own ShowCursor. */
  HideCursor(window: Xid): void
  ShowCursor(window: Xid): void
}

/** XKB: the state of locks, without a key being pressed; changes of the key map. */
export interface Xkb {
  UseCoreKbd: number
  /** The first three masks are of kinds of events, the last two of parts of the map. */
  SelectEvents(device: number, affectWhich: number, clear: number, selectAll: number, affectMap: number, map: number): void
  ModMask: { Lock: number }
  LatchLockState(
    device: number,
    affectLocks: number,
    locks: number,
    lockGroup: boolean,
    group: number,
    affectLatches: number,
    latches: number,
    latchGroup: boolean,
    groupLatch: number,
  ): void
}

/** Damage: reports that something was drawn. */
export interface Damage {
  Create(damage: Xid, drawable: Xid, reportLevel: number): void
  Subtract(damage: Xid, repair: number, parts: number): void
  ReportLevel: { NonEmpty: number }
}

export interface XConnection {
  x: Client
  root: Xid
  randr: RandR
  xtest: XTest
  fixes: XFixes
  damage: Damage
  xinput: XInput
  xkb: Xkb
  minKeycode: number
  maxKeycode: number
  /** Sends a request and waits for its reply. Bounded, so that a dead server is noticed. */
  ask<T>(request: (callback: Callback<T>) => void): Promise<T>
  /** The number of a named atom, made if it is new. */
  atom(name: string): Promise<number>
  /** Resolves when the server has processed everything sent before. */
  sync(): Promise<void>
  close(): void
  /** Resolves when the connection has ended: the server exited, or we closed it. */
  ended: Promise<void>
}

export const eventMask: Record<string, number> = x11.eventMask

/** Connects to a display and loads the extensions that we use. `onError` gets errors of requests that the server refused. */
export async function connectX(display: string, onError: (error: Error) => void, signal: AbortSignal): Promise<XConnection> {
  const { promise, resolve, reject } = Promise.withResolvers<{ client: Client; screen: { root: Xid }[]; min_keycode: number; max_keycode: number }>()
  // Buffered: requests without a reply are sent together, in one write, when we wait for a reply or at the end of the event loop's turn.
  x11.createClient({ display, shm: false, bufferRequests: true }, (error: Error | null, found: never) => (error ? reject(error) : resolve(found)))
  const { client: x, screen, min_keycode, max_keycode } = await within('the X connection', CONNECT_MS, promise, signal)
  x.on('error', onError as never)
  const root = screen[0]!.root
  const ask = <T>(request: (callback: Callback<T>) => void): Promise<T> => {
    const reply = Promise.withResolvers<T>()
    request((error, value) => (error ? reply.reject(error) : reply.resolve(value)))
    return within('the X server', ROUND_TRIP_MS, reply.promise)
  }
  const load = <T>(name: string) => ask<T>((done) => x.require(name, done as never))
  const [randr, xtest, fixes, damage, xinput, xkb] = await Promise.all([
    load<RandR>('randr'),
    load<XTest>('xtest'),
    load<XFixes>('fixes'),
    load<Damage>('damage'),
    load<XInput>('xinput'),
    load<Xkb>('xkb'),
  ])
  await Promise.all([ask((done) => randr.QueryVersion(1, 4, done)), ask((done) => xinput.XIQueryVersion(2, 2, done))])
  return {
    x,
    root,
    randr,
    xtest,
    fixes,
    damage,
    xinput,
    xkb,
    minKeycode: min_keycode,
    maxKeycode: max_keycode,
    ask,
    atom: (name) => ask((done) => x.InternAtom(false, name, done)),
    sync: async () => void (await ask((done) => x.QueryPointer(root, done))),
    close: () => x.terminate(),
    ended: new Promise((resolve) => x.on('end', () => resolve())),
  }
}
