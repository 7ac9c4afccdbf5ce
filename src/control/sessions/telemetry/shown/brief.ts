// Removes from events everything that a link in brief does not show. It is a list of allowed fields, so unknown fields are removed.
import type { EventType, TelemetryEvent } from '../../../../agent/telemetry/contract.ts'
import { withoutParameters, withoutValues } from '../../../../base/redact/texts.ts'
import { BRIEF_TEXT } from '../limits.ts'

const CONTEXT = ['target_type', 'nav_seq', 'url']

/** The fields of each type that stay. Their values are numbers, booleans, and texts whose addresses have lost their values. */
const STAYS: Record<EventType, readonly string[]> = {
  console_log: ['level', 'text'],
  console_error: ['level', 'text', 'line', 'column', 'source_url'],
  network_request: ['method', 'resource_type', 'initiator_type', 'is_redirect', 'redirect_url', 'document_url', 'request_id'],
  network_response: ['method', 'status', 'status_text', 'mime_type', 'resource_type', 'request_id'],
  network_loading_failed: ['error_text', 'canceled', 'resource_type', 'request_id'],
  network_idle: [],
  proxy_error: ['code', 'raw_code', 'status', 'method', 'request_id', 'resource_type'],
  page_navigation: [],
  page_dom_content_loaded: [],
  page_load: [],
  page_tab_opened: ['title'],
  page_layout_shift: ['time', 'duration'],
  page_lcp: ['time'],
  page_layout_settled: [],
  page_navigation_settled: [],
  page_crashed: [],
  interaction_click: ['tag', 'selector', 'x', 'y', 'text'],
  interaction_key: ['tag', 'selector', 'key'],
  interaction_scroll_settled: ['from_x', 'from_y', 'to_x', 'to_y', 'target_selector'],
  monitor_screenshot: [],
  api_call: ['operation_id', 'status', 'duration_ms', 'request_id'],
  cdp_command: ['method', 'event_type', 'button', 'x', 'y', 'named_key', 'url_scheme'],
  platform_api_call: ['operation_id', 'status', 'duration_ms', 'request_id'],
  cdp_connect: [],
  cdp_disconnect: ['duration_ms', 'message_count', 'reason'],
  live_view_connect: [],
  live_view_disconnect: ['duration_ms'],
  captcha_solve_started: ['captcha_type', 'website_host'],
  captcha_solve_result: ['captcha_type', 'status', 'duration_ms', 'error_code', 'website_host'],
  captcha_challenge_result: ['captcha_type', 'status', 'duration_ms', 'error_code', 'website_host'],
  system_oom_kill: ['process_name', 'pid', 'rss_kb', 'constraint'],
  service_crashed: ['service_name', 'phase', 'pid'],
  monitor_disconnected: ['reason'],
  monitor_reconnected: ['reconnect_duration_ms'],
  monitor_reconnect_failed: ['reason'],
  monitor_init_failed: ['step'],
  monitor_events_lost: ['count', 'reason', 'first_seq', 'last_seq'],
}

/** A key that is not a character: Enter, Tab, ArrowLeft. */
const NAMED_KEY = /^[A-Z][A-Za-z0-9]{1,30}$/

/** A text of a field. In a selector, the text after "#" names an element; a whole address may have any quotes in its fragment. */
function textOf(name: string, text: string): string {
  if (name.endsWith('selector')) return withoutParameters(text)
  return withoutValues(name.endsWith('url') ? text.replace(/(?<=.)#.*$/s, '') : text)
}

/** The event without the fields that a link in brief hides, its texts cut to `length`. */
export function brief(event: TelemetryEvent, length?: number): TelemetryEvent {
  const { type, category, ts, source, data = {}, truncated } = event
  const kept: Record<string, unknown> = {}
  for (const name of [...CONTEXT, ...STAYS[type]]) {
    const value = Object.hasOwn(data, name) ? data[name] : undefined
    if (typeof value === 'number' || typeof value === 'boolean') kept[name] = value
    else if (typeof value === 'string' && (type !== 'interaction_key' || name !== 'key' || NAMED_KEY.test(value)))
      kept[name] = textOf(name, value.slice(0, length ?? BRIEF_TEXT))
  }
  return { type, category, ts, source: { kind: source.kind }, data: kept, ...(truncated && { truncated }) }
}
