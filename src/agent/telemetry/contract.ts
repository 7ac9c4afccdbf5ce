// Telemetry of a session: its categories and types of events, and the calls that read them. Paths are the agent's; the control plane offers the stream below a
// browser, and uses the other calls itself.
import * as z from 'zod'
import { events, lines, none, route } from '../../http/route.ts'

/** The default categories, captured whenever telemetry is on. */
export const DEFAULT_CATEGORIES = ['control', 'connection', 'system', 'captcha'] as const
/** Categories that callers may set. */
export const SETTABLE_CATEGORIES = [...DEFAULT_CATEGORIES, 'platform', 'console', 'network', 'page', 'interaction', 'screenshot'] as const
export type SettableCategory = (typeof SETTABLE_CATEGORIES)[number]
/** Categories that need a client of Chromium's DevTools. While one of them is captured, `monitor` is, too. */
export const CDP_CATEGORIES = ['console', 'network', 'page', 'interaction', 'screenshot'] as const satisfies readonly SettableCategory[]
/** All categories. `monitor` is about the capture itself; callers cannot set it. */
export const CATEGORIES = [...SETTABLE_CATEGORIES, 'monitor'] as const
export type Category = (typeof CATEGORIES)[number]
export const SettableCategory = z.enum(SETTABLE_CATEGORIES)
export const Category = z.enum(CATEGORIES)

/**
 * The category of each type of event. `monitor_events_lost` is our own: events between two others are missing. Their positions are stored
 * (control/sessions/telemetry/segments.ts): a new type comes last, and none may be removed.
 */
export const TYPES = {
  console_log: 'console',
  console_error: 'console',
  network_request: 'network',
  network_response: 'network',
  network_loading_failed: 'network',
  network_idle: 'network',
  proxy_error: 'network',
  page_navigation: 'page',
  page_dom_content_loaded: 'page',
  page_load: 'page',
  page_tab_opened: 'page',
  page_layout_shift: 'page',
  page_lcp: 'page',
  page_layout_settled: 'page',
  page_navigation_settled: 'page',
  page_crashed: 'page',
  interaction_click: 'interaction',
  interaction_key: 'interaction',
  interaction_scroll_settled: 'interaction',
  monitor_screenshot: 'screenshot',
  api_call: 'control',
  cdp_command: 'control',
  platform_api_call: 'platform',
  cdp_connect: 'connection',
  cdp_disconnect: 'connection',
  live_view_connect: 'connection',
  live_view_disconnect: 'connection',
  captcha_solve_started: 'captcha',
  captcha_solve_result: 'captcha',
  captcha_challenge_result: 'captcha',
  system_oom_kill: 'system',
  service_crashed: 'system',
  monitor_disconnected: 'monitor',
  monitor_reconnected: 'monitor',
  monitor_reconnect_failed: 'monitor',
  monitor_init_failed: 'monitor',
  monitor_events_lost: 'monitor',
} as const satisfies Record<string, Category>
export type EventType = keyof typeof TYPES
export const EVENT_TYPES = Object.keys(TYPES) as [EventType, ...EventType[]]
export const EventType = z.enum(EVENT_TYPES)

/** The commands of CDP clients that make `cdp_command` events, as in the API. */
export const CDP_COMMANDS = [
  'Input.dispatchMouseEvent',
  'Input.dispatchKeyEvent',
  'Input.insertText',
  'Input.imeSetComposition',
  'Input.dispatchTouchEvent',
  'Input.dispatchDragEvent',
  'Input.cancelDragging',
  'Input.emulateTouchFromMouseEvent',
  'Input.synthesizePinchGesture',
  'Input.synthesizeScrollGesture',
  'Input.synthesizeTapGesture',
  'DOM.setFileInputFiles',
  'DOM.focus',
  'DOM.scrollIntoViewIfNeeded',
  'Page.bringToFront',
  'Page.captureScreenshot',
  'Page.captureSnapshot',
  'Page.handleJavaScriptDialog',
  'Page.navigate',
  'Page.navigateToHistoryEntry',
  'Page.reload',
  'Page.printToPDF',
  'Page.startScreencast',
  'Page.stopScreencast',
  'Page.stopLoading',
  'Page.close',
  'Page.setWebLifecycleState',
  'Target.activateTarget',
  'Target.closeTarget',
  'Target.createTarget',
  'Target.createBrowserContext',
  'Target.disposeBrowserContext',
  'Target.openDevTools',
  'Browser.cancelDownload',
  'Browser.close',
  'Browser.setWindowBounds',
  'Browser.setContentsSize',
  'Autofill.trigger',
] as const
export const CdpCommand = z.enum(CDP_COMMANDS)
export type CdpCommand = z.output<typeof CdpCommand>

/** The categories that a session captures, of {@link SETTABLE_CATEGORIES}; empty: none. It replaces the earlier setting. */
export const TelemetryFit = z.strictObject({
  categories: z.array(SettableCategory).max(SETTABLE_CATEGORIES.length),
  /** Commands of CDP clients that make no `cdp_command` events. */
  excluded_methods: z.array(CdpCommand).max(CDP_COMMANDS.length).default([]),
})
export type TelemetryFit = z.output<typeof TelemetryFit>

/** The source of an event. `metadata` values are short texts: ids of CDP targets, sessions, frames. */
export const Source = z.object({
  kind: z.enum(['cdp', 'kernel_api', 'extension', 'local_process']),
  event: z.string().max(200).optional(),
  metadata: z.record(z.string().max(64), z.string().max(1024)).optional(),
})
export type Source = z.output<typeof Source>

/** The greatest number of an event. The next number is still exact. */
export const MAX_SEQ = Number.MAX_SAFE_INTEGER - 1

/** The longest event, as JSON. Above it `data` is left out and `truncated` is true. Screenshots have {@link MAX_SCREENSHOT_EVENT} instead. */
export const MAX_EVENT = 64 * 1024
/** The longest event with a screenshot, as JSON. */
export const MAX_SCREENSHOT_EVENT = 1024 * 1024

/** One event. `ts` is in microseconds since 1970 on the clock of the session, and never less than that of the previous event. */
export const TelemetryEvent = z.object({
  type: EventType,
  category: Category,
  ts: z.int().min(0),
  source: Source,
  data: z.record(z.string(), z.unknown()).optional(),
  /** Whether a part of `data` was left out because it was too long. */
  truncated: z.boolean().optional(),
})
export type TelemetryEvent = z.output<typeof TelemetryEvent>

/** An event and its number in the session, from 1. A gap between two numbers means that the events between were lost, or filtered out. */
export const Envelope = z.object({ seq: z.int().min(1), event: TelemetryEvent })
export type Envelope = z.output<typeof Envelope>

/** A list in a query: `type=a&type=b` and `type=a,b`. An unknown name matches nothing. */
export const namesQuery = z
  .union([z.string().max(8192), z.array(z.string().max(8192)).max(100)])
  .transform((given) =>
    [given].flat().flatMap((text) =>
      text
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean),
    ),
  )
  .optional()

/** One line of the feed: an event, or the number of the last event (0: none yet), as a sign of life. */
export const FeedLine = z.union([Envelope, z.strictObject({ last: z.int().min(0) })])
export type FeedLine = z.output<typeof FeedLine>

/** The calls that callers may use, below a browser. */
export const telemetry = {
  streamTelemetry: route({
    method: 'GET',
    path: '/telemetry/stream',
    id: 'streamTelemetry',
    group: 'Browser Telemetry',
    summary: 'Stream the telemetry of a running browser',
    query: z.strictObject({
      /** "all": from the oldest stored event. Otherwise only new events. A `Last-Event-ID` header takes precedence. */
      replay: z.string().max(64).optional(),
      type: namesQuery,
    }),
    looksOn: true,
    deadlineMs: Infinity,
    reply: events(Envelope),
  }),
}

/** The agent's own calls, for the control plane only. */
export const telemetryFeed = {
  feedTelemetry: route({
    method: 'GET',
    path: '/telemetry/feed',
    id: 'feedTelemetry',
    group: 'Agent',
    summary: 'Stream all telemetry after an event as JSON lines, until the agent exits',
    query: z.strictObject({ after: z.coerce.number().int().min(0).default(0) }),
    deadlineMs: 2_147_483_647,
    reply: lines(FeedLine),
  }),
  addTelemetry: route({
    method: 'POST',
    path: '/telemetry/add',
    id: 'addTelemetry',
    group: 'Agent',
    summary: 'Add an event that was noticed outside the session',
    body: z.strictObject({ type: EventType, source: Source, data: z.record(z.string(), z.unknown()).optional() }),
    reply: none(),
  }),
  endTelemetry: route({
    method: 'POST',
    path: '/telemetry/end',
    id: 'endTelemetry',
    group: 'Agent',
    summary: 'Take no more events, and end all streams after the last one: the session ends',
    reply: none(),
  }),
}
