// Events on pages: every type has a line, no text exceeds its limit, and a link in brief shows no bodies, headers, typed text or values.
import { describe, expect, test } from 'vitest'
import { envelope } from '../../../../../test/support/kept-events.ts'
import { EVENT_TYPES, type EventType } from '../../../../agent/telemetry/contract.ts'
import { withoutValues } from '../../../../base/redact/texts.ts'
import { EventDetails, EventLine, MAX_NOTE, MAX_TEXT } from './contract.ts'
import { detailsOf, lineOf } from './shown.ts'

const CANARY = 'kanarienvogel'
const one = (type: EventType, data?: Record<string, unknown>) => envelope([type, 1_700_000_000_000_000, data], 7)

/** Values of every form under every field name of the API's events, and under others. */
const NAMES = [
  'url text args level stack_trace source_url line column method headers post_data body status status_text mime_type resource_type request_id error_text',
  'canceled document_url redirect_url title key tag selector x y from_x to_y target_selector png operation_id duration_ms reason process_name rss_kb top_tasks',
  'service_name phase step count time lcp_details website_host __proto__ constructor toString other',
].flatMap((names) => names.split(' '))
const VALUES: unknown[] = [
  '',
  'a',
  'x'.repeat(100_000),
  '\u202e\u0000\n\r',
  3,
  -1,
  Number.MAX_VALUE,
  true,
  null,
  [],
  ['a', 'b'],
  [1, {}],
  {},
  { a: 'b' },
  deep(3_000),
]

function deep(levels: number): unknown {
  let made: unknown = 'end'
  for (let level = 0; level < levels; level++) made = { in: made }
  return made
}

test('every type of event has a line and details, whatever it has, and no text is longer than its limit', () => {
  for (const type of EVENT_TYPES)
    for (const shown of ['full', 'brief'] as const) {
      for (const value of VALUES) {
        const event = one(type, Object.fromEntries(NAMES.map((name) => [name, value])))
        expect(EventLine.safeParse(lineOf(event, shown)).error, `${type} ${String(value).slice(0, 20)}`).toBe(undefined)
        const details = detailsOf(event, shown)
        expect(EventDetails.safeParse(details).error).toBe(undefined)
        expect(JSON.stringify(details).length).toBeLessThan(2 * 1024 * 1024)
      }
      expect(lineOf(one(type), shown).text).not.toBe('')
    }
})

test('a line is one line, without characters that hide others or turn the writing around', () => {
  const { text, note } = lineOf(one('page_tab_opened', { title: 'a\n\tb\u202egnp.exe\u0007\ufeff', url: `https://x/${'y'.repeat(500)}` }), 'full')
  expect(text).toBe('Opened a tab a b\ufffdgnp.exe\ufffd')
  expect(note!.length).toBe(MAX_NOTE)
  expect(lineOf(one('console_log', { text: '😀'.repeat(400) }), 'full').text).toMatch(/^(?:😀)+…$/u)
  expect(lineOf(one('console_log', { text: '<img src=x onerror=alert(1)>' }), 'full').text).toBe('<img src=x onerror=alert(1)>')
  expect(lineOf(one('console_log', { text: 'z'.repeat(1_000) }), 'full').text).toHaveLength(MAX_TEXT)
})

test.each(['full', 'brief'] as const)('a command of a CDP client is told with its kind and what it is about (%s)', (shown) => {
  const said = (data: Record<string, unknown>) => {
    const { text, note } = lineOf(one('cdp_command', { connection_id: 'c', ...data }), shown)
    return [text, note]
  }
  expect(said({ method: 'Input.dispatchMouseEvent', event_type: 'mousePressed', x: 3, y: 4, button: 'left' })).toEqual([
    'CDP Input.dispatchMouseEvent',
    'mousePressed at 3, 4',
  ])
  expect(said({ method: 'Input.dispatchKeyEvent', event_type: 'keyDown', named_key: 'Enter' })).toEqual(['CDP Input.dispatchKeyEvent', 'keyDown Enter'])
  expect(detailsOf(one('cdp_command', { method: 'Input.dispatchMouseEvent', event_type: 'mousePressed' }), shown).facts).toContainEqual([
    'event_type',
    'mousePressed',
  ])
})

test('a picture is passed on only as what it is, and only in full', () => {
  const sized = (width: number, height: number) => {
    const bytes = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR________\x08\x06\0\0\0', 'latin1')
    bytes.writeUInt32BE(width, 16)
    bytes.writeUInt32BE(height, 20)
    return bytes.toString('base64')
  }
  const png = sized(1920, 1080)
  expect(detailsOf(one('monitor_screenshot', { png }), 'full').png).toBe(png)
  expect(detailsOf(one('monitor_screenshot', { png }), 'brief').png).toBe(undefined)
  for (const other of ['PHN2Zz4=', sized(8193, 1), sized(1, 30_000), sized(0, 1), png.slice(0, 28), `${png}" onload="`, 'javascript:alert(1)', 3])
    expect(detailsOf(one('monitor_screenshot', { png: other }), 'full').png).toBe(undefined)
})

describe('in brief', () => {
  test('nothing of what an event may hold besides the named fields is shown, in its line or its details', () => {
    for (const type of EVENT_TYPES) {
      const names = 'headers body post_data args stack_trace png cookies params top_tasks value lcp_details other __proto__'.split(' ')
      const data = Object.fromEntries(
        names.flatMap((name) => [
          [name, { deep: CANARY, list: [CANARY] }],
          [`${name}_text`, CANARY],
        ]),
      )
      const event = one(type, { ...data, headers: CANARY, body: CANARY, post_data: CANARY, url: `https://u:${CANARY}@x/?a=${CANARY}#'${CANARY}` })
      event.event.source = { kind: 'cdp', event: CANARY, metadata: { a: CANARY } }
      expect(JSON.stringify([lineOf(event, 'brief'), detailsOf(event, 'brief')]), type).not.toContain(CANARY)
      expect(JSON.stringify(detailsOf(event, 'full'))).toContain(CANARY)
    }
  })

  test('typed characters are left out, and keys with names stay', () => {
    const key = (name: string) => lineOf(one('interaction_key', { key: name }), 'brief').text
    expect([key('a'), key('ß'), key('Enter'), key('F5')]).toEqual(['Key', 'Key', 'Key Enter', 'Key F5'])
  })

  test('selectors stay, without values in the addresses that they may have', () => {
    const note = (selector: string) => lineOf(one('interaction_key', { key: 'Enter', selector }), 'brief').note
    expect([note('form#login > input.name'), note('a[href="/cb#token=abc"]')]).toEqual(['form#login > input.name', 'a[href="/cb#token=…"]'])
  })

  test.each([
    ['https://a.test/p?q=1&token=abc#top', 'https://a.test/p?q=…&token=…'],
    ['GET /p?q=1;r=2 failed', 'GET /p?q=…;r=… failed'],
    ['https://me:secret@a.test/', 'https://a.test/'],
    ['see "https://a.test/?q=1" and http://b.test/x#y', 'see "https://a.test/?q=…" and http://b.test/x'],
    ['data:text/html,<b>secret\n</b>', 'data:…'],
    ['got data:text/html,secret twice', 'got data:… twice'],
    ['javascript:steal()', 'javascript:…'],
    ['blob:https://a.test/1-2', 'blob:…'],
    ['what? no = sign, a&b', 'what? no = sign, a&b'],
    ['/callback#access_token=abc', '/callback'],
    ['a.test/reset#abc now', 'a.test/reset now'],
    ['#access_token=abc', '#…'],
    [`https://a.test/?${'n'.repeat(300)}=abc&q=1`, `https://a.test/?${'n'.repeat(300)}=…&q=…`],
    ['https://a.test/?q=', 'https://a.test/?q='],
    ['https://a.test/?a=b=c&d', 'https://a.test/?a=…&d'],
  ])('of %j stays %j', (text, left) => expect(withoutValues(text)).toBe(left))
})
