// Which events are a failure, or may be one: for lists and exports.
import type { EventType } from '../../../../agent/telemetry/contract.ts'
import type { EventLine } from './contract.ts'

const TONES: Partial<Record<EventType, EventLine['tone']>> = {
  console_error: 'bad',
  network_loading_failed: 'bad',
  proxy_error: 'bad',
  page_crashed: 'bad',
  system_oom_kill: 'bad',
  service_crashed: 'bad',
  monitor_reconnect_failed: 'bad',
  monitor_init_failed: 'warn',
  monitor_disconnected: 'warn',
  monitor_events_lost: 'warn',
}

export function toneOf(type: EventType, { level, status, canceled }: Record<string, unknown>): EventLine['tone'] {
  if (type === 'network_loading_failed' && canceled === true) return 'warn'
  if (type === 'console_log') return level === 'warning' || level === 'warn' ? 'warn' : undefined
  if (type === 'captcha_solve_result') return status === 'success' ? undefined : 'warn'
  if (TONES[type]) return TONES[type]
  if (typeof status !== 'number' || status < 400) return undefined
  return status >= 500 ? 'bad' : 'warn'
}
