// The agent's calls for logging in, for the control plane only: read a page as a login form, fill it, wait for the result. Texts of a page in here are not
// verified.
import * as z from 'zod'
import { json, none, route } from '../../http/route.ts'

const group = 'Agent'

/** Timeout for reading a page with its frames. A page that hangs is not read. */
const READ_MS = 15_000
/** Timeout for opening a page, until it has been parsed or has failed. */
const OPEN_MS = 45_000
/** Timeout for waiting after an action: {@link MAX_SETTLE_MS} and some time to read. */
const SETTLE_MS = 60_000
/** Longest wait for a reaction after an action, in milliseconds. */
export const MAX_SETTLE_MS = 45_000
/** Limits on a model: content of a page beyond them is not read. */
export const MAX_CONTROLS = 400
export const MAX_FRAMES = 50
export const MAX_FORMS = 100
export const MAX_BODY_TEXT = 8_000
/** Patterns of hosts in one call. */
export const MAX_HOSTS = 200

const text = (most: number) => z.string().max(most)
const Short = text(300)

/** Names one control of the last model: by its read, frame and number. Another read makes all earlier ones invalid. */
export const Ref = z.string().regex(/^\d{1,9}\.\d{1,3}\.\d{1,5}$/)
export type Ref = z.infer<typeof Ref>

/** In CSS pixels of the top page's viewport. */
const Box = z.object({ x: z.int(), y: z.int(), width: z.int().min(0), height: z.int().min(0) })

/** An element that accepts a value or a click. The value itself is never included. */
export const Control = z.object({
  ref: Ref,
  /** Index in `frames`. */
  frame: z.int().min(0).max(MAX_FRAMES),
  tag: z.enum(['input', 'select', 'textarea', 'button', 'a', 'other']),
  /** The type of an input in lower case, else empty. */
  type: text(32),
  name: text(200),
  id: text(200),
  autocomplete: text(200),
  inputmode: text(32),
  maxlength: z.int().min(0).max(1_000_000).nullable(),
  pattern: text(200),
  required: z.boolean(),
  /** Whether it has a size, is not transparent, clipped away or outside the page, and its styles show it. */
  visible: z.boolean(),
  /** Whether something else is at its centre. It may be scrolled into view first. */
  covered: z.boolean(),
  enabled: z.boolean(),
  has_value: z.boolean(),
  /** For boxes and radio buttons. */
  checked: z.boolean().nullable(),
  /** The accessible name. */
  label: Short,
  label_from: z.enum(['for', 'wrap', 'aria', 'placeholder', 'title', 'near', 'value', 'alt', 'text', 'none']),
  placeholder: Short,
  /** The nearest text before it that is not a label. */
  near: Short,
  /** Index in `forms`; null: in none. */
  form: z.int().min(0).max(MAX_FORMS).nullable(),
  invalid: z.boolean(),
  described: Short,
  role: text(32),
  /** The target of a link, or of its own formaction: host and path. */
  href_host: text(253).nullable(),
  href_path: Short.nullable(),
  /** Whether it submits its form. */
  submits: z.boolean(),
  /** The labels of a select's options, in order. */
  options: z.array(text(100)).max(60),
  /** Whether it is inside an open dialog. */
  in_dialog: z.boolean(),
  box: Box,
  /** For people, and for clients that need a selector. */
  xpath: text(1000),
})
export type Control = z.infer<typeof Control>

export const Frame = z.object({
  url: text(2048),
  /** The host of the frame's origin. A srcdoc frame has its parent's host. Empty for an opaque origin (a sandbox, data:), even if its parent has a host. */
  host: text(253),
  parent: z.int().min(0).max(MAX_FRAMES).nullable(),
  name: text(200),
  title: text(200),
  visible: z.boolean(),
  box: Box,
})
export type Frame = z.infer<typeof Frame>

export const PageModel = z.object({
  /** Number of the read; the first part of each {@link Ref}. */
  generation: z.int().min(0),
  url: text(4096),
  host: text(253),
  title: Short,
  language: text(35),
  /** The HTTP status of the document; null when it is not known. */
  status: z.int().min(0).max(999).nullable(),
  /** Chromium's error (`net::ERR_…`) when the page could not be opened. */
  error: text(100).nullable(),
  /** Whether the server asks for a user and password by HTTP authentication. */
  http_auth: z.boolean(),
  /** Whether the page has asked for a passkey since it was opened; the browser refuses at once. */
  passkey_asked: z.boolean(),
  /** The first one is the page itself. */
  frames: z.array(Frame).min(1).max(MAX_FRAMES),
  forms: z
    .array(z.object({ frame: z.int().min(0).max(MAX_FRAMES), action_host: text(253).nullable(), action_path: Short.nullable(), method: text(10) }))
    .max(MAX_FORMS),
  controls: z.array(Control).max(MAX_CONTROLS),
  headings: z.array(Short).max(30),
  /** Texts that look like messages: by ARIA, by class name, and those of an invalid control. */
  alerts: z.array(z.object({ text: text(500), by: z.enum(['role', 'live', 'invalid', 'class']), control: Ref.nullable() })).max(20),
  has_dialog: z.boolean(),
  /** The visible text of the page and its frames, with spaces joined, cut. */
  body: text(MAX_BODY_TEXT),
})
export type PageModel = z.infer<typeof PageModel>

/** A host that may get values; with a leading `*.`, itself and every name below. In lower case, ASCII. */
export const AllowedHost = z.string().regex(/^(\*\.)?[a-z0-9.:[\]_-]{1,253}$/)

const Value = z
  .string()
  .min(1)
  .max(16 * 1024)
export const Action = z.discriminatedUnion('kind', [
  /** Replaces the content of a field, by key events and text like a person. `boxes`: types one character into each of these instead of all into `ref`. */
  z.strictObject({ kind: z.literal('fill'), ref: Ref, value: Value, boxes: z.array(Ref).max(12).optional() }),
  z.strictObject({ kind: z.literal('select'), ref: Ref, option: z.int().min(0).max(1000) }),
  z.strictObject({ kind: z.literal('check'), ref: Ref, checked: z.boolean() }),
  z.strictObject({ kind: z.literal('click'), ref: Ref }),
  /** Presses a key in the field `ref`. */
  z.strictObject({ kind: z.literal('press'), ref: Ref, key: z.enum(['Enter']) }),
])
export type Action = z.infer<typeof Action>

const Act = z.strictObject({
  /** Carried out in order until one fails. */
  actions: z.array(Action).min(1).max(40),
  /**
   * Where values may be typed. Right before each `fill`, the agent compares the hosts of the top page, of the field's frame and of all frames between them with
   * these.
   */
  hosts: z.array(AllowedHost).max(MAX_HOSTS),
})

export const Acted = z.object({
  /** Number of actions that were carried out. */
  done: z.int().min(0).max(40),
  /** Why not all were carried out: a host that is not allowed (nothing was typed there), a control that does not exist any more, or one that cannot be used. */
  problem: z.enum(['host', 'gone', 'unusable']).nullable(),
  /** The host that was refused. */
  host: text(253).nullable(),
  /** For a control that does not exist any more or cannot be used: whether the page may have its value all the same. Older agents do not report it. */
  typed: z.boolean().optional(),
})
export type Acted = z.infer<typeof Acted>

export const Settled = z.object({
  /** The first reaction. `nothing`: there was none in time. */
  by: z.enum(['navigated', 'changed', 'popup', 'closed', 'nothing']),
})
export type Settled = z.infer<typeof Settled>

/** A cookie without its value. */
const Cookie = z.object({
  name: text(256),
  domain: text(253),
  /** Digest of the value with a random key of the agent: comparable within one session only. */
  digest: z.string().regex(/^[0-9a-f]{32}$/),
})

export const login = {
  openLoginPage: route({
    method: 'POST',
    path: '/login/open',
    id: 'openLoginPage',
    group,
    summary: 'Open an address in the tab of the login, and wait until it has been read',
    body: z.strictObject({ url: z.url({ protocol: /^https?$/ }).max(4096), new_tab: z.boolean().default(false) }),
    deadlineMs: OPEN_MS,
    reply: json(z.object({ error: text(100).nullable() })),
  }),
  readLoginPage: route({
    method: 'POST',
    path: '/login/read',
    id: 'readLoginPage',
    group,
    summary: 'Read the page of the login: its controls, frames and texts, without values',
    deadlineMs: READ_MS,
    reply: json(PageModel),
    faults: ['unavailable'],
  }),
  actOnLoginPage: route({
    method: 'POST',
    path: '/login/act',
    id: 'actOnLoginPage',
    group,
    summary: 'Fill, choose and click on the page that was read last',
    body: Act,
    deadlineMs: SETTLE_MS,
    reply: json(Acted),
    faults: ['unavailable'],
  }),
  settleLoginPage: route({
    method: 'POST',
    path: '/login/settle',
    id: 'settleLoginPage',
    group,
    summary: 'Wait until the page that was read last has become another, or says something new, and is quiet',
    body: z.strictObject({ limit_ms: z.int().min(0).max(MAX_SETTLE_MS) }),
    deadlineMs: SETTLE_MS,
    reply: json(Settled),
    faults: ['unavailable'],
  }),
  readLoginMarks: route({
    method: 'POST',
    path: '/login/marks',
    id: 'readLoginMarks',
    group,
    summary: 'List the cookies of hosts, without values',
    body: z.strictObject({ hosts: z.array(AllowedHost).max(MAX_HOSTS) }),
    deadlineMs: READ_MS,
    reply: json(z.object({ cookies: z.array(Cookie).max(500) })),
    faults: ['unavailable'],
  }),
  endLogin: route({
    method: 'POST',
    path: '/login/end',
    id: 'endLogin',
    group,
    summary: 'Leave one tab, and what the login has changed of the browser (passkeys, masks)',
    deadlineMs: READ_MS,
    reply: none(),
    faults: ['unavailable'],
  }),
}
