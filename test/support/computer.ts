// Computer controls of a session with the fake driver: calls to them, and valid and invalid bodies.
import { inspect } from 'node:util'
import { conforms } from './contract.ts'
import { startFastCloud, type FastCloud, type Session } from './fast-cloud.ts'

/** The limit for a refusal. The service refuses an invalid action before it begins; a valid one may take minutes. */
const ANSWER_MS = 5_000

export const VIEWPORT = { width: 1000, height: 700 }

export interface Controls extends AsyncDisposable {
  cloud: FastCloud
  session: Session
  /** Calls an operation. With `undefined` it sends no body. */
  send(tool: string, body?: unknown, id?: string): Promise<Response>
  /** The position of the pointer. */
  pointer(): Promise<unknown>
}

/** Starts a service with one session of the size {@link VIEWPORT}. */
export async function startControls(): Promise<Controls> {
  const cloud = await startFastCloud()
  const session = await cloud.create({ timeout_seconds: 3600, viewport: VIEWPORT })
  const send: Controls['send'] = (tool, body, id = session.session_id) =>
    cloud.fetch(`/browsers/${id}/computer/${tool}`, {
      method: 'POST',
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_MS),
    })
  const pointer = async () => (await send('get_mouse_position')).json()
  return { cloud, session, send, pointer, [Symbol.asyncDispose]: () => cloud[Symbol.asyncDispose]() }
}

/** The fields that a refusal names. @throws when the call was not refused */
export async function named(answer: Promise<Response>): Promise<string[]> {
  const response = await answer
  const text = await response.text()
  if (response.status !== 400) throw new Error(`answered ${response.status}: ${text}`)
  const body = JSON.parse(text) as { details?: { message: string }[] }
  conforms('ErrorModel', body)
  return [...new Set((body.details ?? []).map(({ message }) => message.split(':', 1)[0]!))].toSorted()
}

/** Status, length and text of an answer: `[200, '0', '']` for a successful call. */
export async function outcome(answer: Promise<Response>): Promise<unknown[]> {
  const response = await answer
  return [response.status, response.headers.get('content-length'), await response.text()]
}
export const DONE = [200, '0', '']

/** A value as part of a test's title. */
export const shown = (value: unknown): string => {
  const text = inspect(value, { breakLength: Infinity, depth: 5, maxArrayLength: 4, maxStringLength: 30 })
  return text.length > 120 ? `${text.slice(0, 120)}…` : text
}

/** A change that makes a valid body invalid, and the fields that are then refused. */
export type Refusal = [change: object, ...fields: string[]]

/** An action that can be called alone and in a batch. */
export interface Action {
  /** Its path below `computer/`. */
  tool: string
  /** Its type in a batch. */
  type: string
  /** The name of its body in the published contract. */
  schema: string
  /** A body with only the required fields. */
  right: object
  /** Changes that keep the body valid. All of them take only milliseconds. */
  accepted: object[]
  refused: Refusal[]
}

const A = [1, 1]
const B = [20, 30]
const C = [999, 699]
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)

const wrongPoint: Refusal[] = [
  [{ x: VIEWPORT.width }, 'x'],
  [{ y: VIEWPORT.height }, 'y'],
  [{ x: -1 }, 'x'],
  [{ y: -1 }, 'y'],
  [{ x: 65_535 }, 'x'],
  [{ x: 65_536 }, 'x'],
  [{ y: 1e300 }, 'y'],
  [{ x: 0.5 }, 'x'],
  [{ y: '1' }, 'y'],
  [{ x: null }, 'x'],
  [{ y: [1] }, 'y'],
  [{ x: undefined }, 'x'],
  [{ x: undefined, y: undefined }, 'x', 'y'],
  [{ x: -1, y: 'b', z: 1 }, 'x', 'y', 'z'],
]

/** 64 characters, the longest name of a key. */
const LONGEST_KEY = `${'ctrl+'.repeat(11)}shift+del`

/** Invalid lists of keys, and which entry is invalid. */
const wrongKeys: [keys: unknown, entry: string][] = [
  ['ctrl', ''],
  [null, ''],
  [{ 0: 'ctrl' }, ''],
  [[''], '.0'],
  [[1], '.0'],
  [['ctrl', null], '.1'],
  [['ctrl', 'NoSuchKey'], '.1'],
  [['shift', 'ctrl+NoSuchKey'], '.1'],
  [['ctrl+'], '.0'],
  [['+a'], '.0'],
  [['ctrl++a'], '.0'],
  [['ctrl+++'], '.0'],
  [['ctrl++', '++'], '.1'],
  [['U110000'], '.0'],
  [['UD800'], '.0'],
  [['\n'], '.0'],
  [['\u0007'], '.0'],
  [['a', '\ud800'], '.1'],
  [['a', '\0'], '.1'],
  [[`${LONGEST_KEY}e`], '.0'],
]
const wrongKeysOf = (name: string): Refusal[] => wrongKeys.map(([keys, entry]) => [{ [name]: keys }, name + entry])
const wrongHolds: Refusal[] = [
  ...wrongKeysOf('hold_keys').filter(([change]) => !Object.values(change).includes(null)),
  [{ hold_keys: times(17, 'a') }, 'hold_keys'],
]
const rightHolds = [[], ['ctrl'], ['Control_L', 'shift', 'alt+cmd'], ['A', 'é', '+'], times(16, 'a'), [LONGEST_KEY]].map((keys) => ({ hold_keys: keys }))

/** Invalid numbers of milliseconds, steps or notches. */
const wrongCount = (name: string): Refusal[] => [-1, 0.5, '5', true, 2 ** 53].map((value) => [{ [name]: value }, name])
const wrongSwitch = (name: string): Refusal[] => ['true', 1, 0].map((value) => [{ [name]: value }, name])

export const ACTIONS: Action[] = [
  {
    tool: 'click_mouse',
    type: 'click_mouse',
    schema: 'ComputerClickMouseParams',
    right: { x: 5, y: 6 },
    accepted: [
      { x: 0, y: 0 },
      { x: 999, y: 699 },
      ...['left', 'right', 'middle', 'back', 'forward'].map((button) => ({ button })),
      ...['click', 'down', 'up'].map((click_type) => ({ click_type, num_clicks: 1 })),
      { num_clicks: 30 },
      ...rightHolds,
    ],
    refused: [
      ...wrongPoint,
      ...wrongHolds,
      ...wrongCount('num_clicks'),
      [{ num_clicks: 0 }, 'num_clicks'],
      [{ num_clicks: 31 }, 'num_clicks'],
      [{ num_clicks: 2, click_type: 'down' }, 'num_clicks'],
      [{ num_clicks: 30, click_type: 'up' }, 'num_clicks'],
      [{ button: 'Left' }, 'button'],
      [{ button: 1 }, 'button'],
      [{ click_type: 'double' }, 'click_type'],
      [{ click_type: ['click'] }, 'click_type'],
      [{ smooth: true }, 'smooth'],
      [{ button: 'wheel', click_type: 'tap', num_clicks: 0, count: 2 }, 'button', 'click_type', 'count', 'num_clicks'],
    ],
  },
  {
    tool: 'move_mouse',
    type: 'move_mouse',
    schema: 'ComputerMoveMouseParams',
    right: { x: 5, y: 6 },
    accepted: [
      { x: 0, y: 0, smooth: false },
      { x: 999, y: 699, duration_ms: 50 },
      { smooth: false, duration_ms: 5_000 },
      { smooth: true },
      ...rightHolds.map((keys) => ({ ...keys, smooth: false })),
    ],
    refused: [
      ...wrongPoint,
      ...wrongHolds,
      ...wrongCount('duration_ms'),
      ...wrongSwitch('smooth'),
      [{ duration_ms: 49 }, 'duration_ms'],
      [{ duration_ms: 5_001 }, 'duration_ms'],
      [{ duration_ms: 5_001, smooth: false }, 'duration_ms'],
      // The limits themselves are valid, so only x is refused.
      [{ duration_ms: 50, x: 1000 }, 'x'],
      [{ duration_ms: 5_000, x: 1000 }, 'x'],
      [{ button: 'left' }, 'button'],
    ],
  },
  {
    tool: 'drag_mouse',
    type: 'drag_mouse',
    schema: 'ComputerDragMouseParams',
    right: { path: [A, B], duration_ms: 50 },
    accepted: [
      { path: [A, C], duration_ms: 50 },
      { path: [[0, 0], C] },
      { path: [A, A] },
      { path: [A, B, A, C], smooth: false, steps_per_segment: 1, step_delay_ms: 0, button: 'middle' },
      { path: [A, B], smooth: false, steps_per_segment: 300_000, step_delay_ms: 0, button: 'right' },
      { path: times(1_000, A), smooth: false, steps_per_segment: 1, step_delay_ms: 0, delay: 0 },
      { path: [A, B], smooth: true, steps_per_segment: 10 ** 9, step_delay_ms: 10 ** 9, delay: 5, button: 'left' },
      { hold_keys: ['ctrl', 'Shift_L', 'a'] },
    ],
    refused: [
      ...wrongHolds,
      ...wrongCount('delay'),
      ...wrongCount('duration_ms'),
      ...wrongCount('steps_per_segment'),
      ...wrongCount('step_delay_ms'),
      ...wrongSwitch('smooth'),
      [{ path: undefined }, 'path'],
      [{ path: null }, 'path'],
      [{ path: 'M 1 1 L 2 2' }, 'path'],
      [{ path: [] }, 'path'],
      [{ path: [A] }, 'path'],
      [{ path: times(1_001, A) }, 'path'],
      [{ path: [A, [2]] }, 'path.1'],
      [{ path: [A, [2, 2, 2]] }, 'path.1'],
      [{ path: [A, { x: 2, y: 2 }] }, 'path.1'],
      [{ path: [A, '2,2'] }, 'path.1'],
      [{ path: [A, null] }, 'path.1'],
      [{ path: [A, [2.5, 2]] }, 'path.1.0'],
      [{ path: [A, [2, '2']] }, 'path.1.1'],
      [{ path: [A, [-1, 2]] }, 'path.1.0'],
      [{ path: [A, [1_000, 2]] }, 'path.1.0'],
      [{ path: [[1, 700], A] }, 'path.0.1'],
      [{ path: [A, B, [-1, -1]] }, 'path.2.0', 'path.2.1'],
      [{ button: 'back' }, 'button'],
      [{ button: 0 }, 'button'],
      [{ duration_ms: 49 }, 'duration_ms'],
      [{ duration_ms: 10_001 }, 'duration_ms'],
      [{ duration_ms: 10_000, path: [A, [1_000, 2]] }, 'path.1.0'],
      [{ steps_per_segment: 0 }, 'steps_per_segment'],
      [{ speed: 3 }, 'speed'],
    ],
  },
  {
    tool: 'press_key',
    type: 'press_key',
    schema: 'ComputerPressKeyParams',
    right: { keys: ['a'] },
    accepted: [
      { keys: ['Return', 'Enter', 'ctrl+shift+t', 'ctrl++', '+', 'plus', ' ', 'é', '🌽', 'U20AC', 'XF86Back', 'a', 'a'] },
      { keys: times(256, 'x') },
      { keys: [LONGEST_KEY] },
      { duration: 0 },
      { duration: 5, keys: ['ctrl', 'shift', 'a'] },
      ...rightHolds,
    ],
    refused: [
      ...wrongHolds,
      ...wrongKeysOf('keys'),
      ...wrongCount('duration'),
      [{ keys: undefined }, 'keys'],
      [{ keys: [] }, 'keys'],
      [{ keys: times(257, 'x') }, 'keys'],
      [{ key: 'a' }, 'key'],
      [{ keys: ['NoSuchKey'], hold_keys: 'ctrl', duration: -1 }, 'duration', 'hold_keys'],
    ],
  },
  {
    tool: 'type',
    type: 'type_text',
    schema: 'ComputerTypeTextParams',
    right: { text: 'hello' },
    accepted: [
      { text: '' },
      { text: 'a\tb\nc\r\nd\re' },
      { text: 'Grüße, 日本語, עברית, 🌽👩‍👩‍👧, \u00a0\u2028\ufeff' },
      { text: 'x'.repeat(100_000) },
      { delay: 0 },
      { delay: 2 },
      { text: 'a', delay: 10 ** 9 },
      { smooth: true, delay: 1 },
      { smooth: true, delay: 1, typo_chance: 0.1 },
      { delay: 1, typo_chance: 0.05 },
      { smooth: false, typo_chance: 0 },
    ],
    refused: [
      ...wrongCount('delay'),
      ...wrongSwitch('smooth'),
      [{ text: undefined }, 'text'],
      [{ text: null }, 'text'],
      [{ text: 1 }, 'text'],
      [{ text: ['a'] }, 'text'],
      [{ text: 'x'.repeat(100_001) }, 'text'],
      ...['\0', '\u0007', 'a\u001b[A', '\u007f', 'ab\u0080', '\u009f', '\ud800', 'a\udc00b', '\udc00\ud800'].map((text): Refusal => [{ text }, 'text']),
      [{ typo_chance: -0.01 }, 'typo_chance'],
      [{ typo_chance: 0.11 }, 'typo_chance'],
      [{ typo_chance: 1 }, 'typo_chance'],
      [{ typo_chance: '0.1' }, 'typo_chance'],
      [{ typo_chance: 0.1, smooth: false }, 'typo_chance'],
      [{ typo_chance: 0.0001, smooth: false, delay: 5 }, 'typo_chance'],
      [{ hold_keys: ['ctrl'] }, 'hold_keys'],
    ],
  },
  {
    tool: 'scroll',
    type: 'scroll',
    schema: 'ComputerScrollParams',
    right: { x: 5, y: 6 },
    accepted: [{ x: 999, y: 699, delta_y: 3 }, { delta_x: -1, delta_y: 10 }, { delta_x: 10, delta_y: -1 }, { delta_x: 0, delta_y: 0 }, ...rightHolds],
    refused: [
      ...wrongPoint,
      ...wrongHolds,
      ...['delta_x', 'delta_y'].flatMap((name) => [0.5, '5', 20_001, -20_001].map((value): Refusal => [{ [name]: value }, name])),
      [{ delta: 1 }, 'delta'],
    ],
  },
  {
    tool: 'cursor',
    type: 'set_cursor',
    schema: 'ComputerSetCursorVisibilityParams',
    right: { hidden: true },
    accepted: [{ hidden: false }],
    refused: [[{ hidden: undefined }, 'hidden'], ...wrongSwitch('hidden'), [{ visible: true }, 'visible']],
  },
]
