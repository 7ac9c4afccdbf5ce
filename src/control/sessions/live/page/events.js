// The list of events beside the picture. Nothing is asked of the service until it is opened, and nothing any more when it is closed.
import { eventList } from '../../telemetry/page/events.js'

/** Lines that are kept; the oldest ones go. */
const MAX_LINES = 5_000
/** Characters of details that are kept. What lies further back has its line only. */
const MAX_DETAILS = 8 * 1024 * 1024
/** How often the list is drawn, at most. A session can tell of thousands of events a second. */
const DRAW_MS = 150

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })

/** `at(id)` finds an element of the page; `base` is the page's address. */
export function openEventList(at, base) {
  const [panel, button] = [at('events'), at('events-open')]
  /** Details of the newest events by their number, in the order in which they came, and how long they are. */
  const details = new Map()
  let length = 0
  let last = 0
  let list
  let source
  let waiting = []
  let timer
  let isOver = false

  function take(events) {
    // After a break the stream begins again with what it still has.
    for (const { line, details: more } of events.filter((one) => one.line.seq > last)) {
      last = line.seq
      waiting.push(line)
      details.set(line.seq, { more, size: sizeOf(more) })
      length += sizeOf(more)
      for (const [seq, { size }] of details) {
        if (length <= MAX_DETAILS && details.size <= MAX_LINES) break
        details.delete(seq)
        length -= size
      }
    }
    if (waiting.length > MAX_LINES) waiting = waiting.slice(-MAX_LINES)
    if (waiting.length > 0) timer ??= setTimeout(draw, DRAW_MS)
  }
  function draw() {
    timer = undefined
    list.add(waiting)
    waiting = []
  }

  function connect() {
    if (isOver) return list.say(list.length > 0 ? undefined : 'This session has ended.')
    source = new EventSource(`${base}/events`)
    source.onmessage = ({ data }) => {
      const { categories, events, event, skipped } = JSON.parse(data)
      if (categories) list.say(categories.length === 0 && list.length === 0 ? 'The telemetry of this session is off, so there are no events.' : undefined)
      else if (events) take(events)
      else if (skipped) list.skip(skipped)
      // The service's last word before the stream ends: it is opened again, or the session has ended.
      else if (event === 'error') list.say('The events stopped. Trying again…')
    }
    source.onerror = () => {
      // The browser opens it again by itself, unless the service has refused.
      if (source?.readyState !== EventSource.CLOSED || isOver) return
      const again = document.createElement('button')
      again.type = 'button'
      again.textContent = 'Try again'
      again.onclick = () => (list.say('Connecting…'), connect())
      list.say('The events cannot be shown.', again)
    }
  }
  function disconnect() {
    source?.close()
    source = undefined
  }

  function toggle(open) {
    panel.hidden = !open
    button.setAttribute('aria-expanded', String(open))
    if (!open) {
      disconnect()
      button.focus()
      return
    }
    list ??= eventList(at('events-list'), {
      when: ({ ts }) => clock.format(ts / 1000),
      details: async ({ seq }) => details.get(seq)?.more ?? { facts: [], blocks: [['Details', 'They are not kept here any more.']], isBrief: false },
      max: MAX_LINES,
      isLive: true,
    })
    list.shown()
    // A focused field would open a phone's keyboard.
    if (matchMedia('(pointer: coarse)').matches) at('events-close').focus()
    else at('events-list').querySelector('input').focus()
    connect()
  }
  button.onclick = () => toggle(panel.hidden)
  at('events-close').onclick = () => toggle(false)
  panel.addEventListener('keydown', (event) => event.key === 'Escape' && !event.defaultPrevented && toggle(false))

  return {
    /** The session has ended. What has come stays. */
    end() {
      isOver = true
      disconnect()
    },
  }
}

const sizeOf = ({ facts, blocks }) => [...facts, ...blocks].reduce((sum, [name, text]) => sum + name.length + text.length, 0)
