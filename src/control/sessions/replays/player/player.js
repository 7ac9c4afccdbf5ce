// The player's behaviour. Its page says when the video begins and how much changed on the screen.
const main = document.querySelector('.player')
const find = (selector) => main.querySelector(selector)
const video = find('video')
const seek = find('.seek')
const tip = find('.tip')
const startedAt = Number(main.dataset.started)
/** The same moment on the clock of the session's events, in microseconds. */
const began = Number(main.dataset.clock)
const address = `video${location.search}`
/** Events that are loaded before somebody asks for more. */
const EVENTS_AT_ONCE = 20_000
/** Parts of the line that marks are put into. */
const MARK_PARTS = 600
let events

const two = (number) => String(number).padStart(2, '0')
const duration = () => (Number.isFinite(video.duration) ? video.duration : 0)

/** 0:07, 12:34, 1:02:03 */
function clock(seconds) {
  const whole = Math.floor(seconds + 0.001)
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60]
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`
}

const timeOfDay = (seconds) => new Date(startedAt + seconds * 1000).toLocaleTimeString()

function show() {
  const [now, all] = [video.currentTime, duration()]
  find('.now').textContent = clock(now)
  find('.all').textContent = clock(all)
  find('.clock').textContent = timeOfDay(now)
  find('.clock').dateTime = new Date(startedAt + now * 1000).toISOString()
  seek.max = String(all || 1)
  seek.value = String(now)
  seek.setAttribute('aria-valuetext', `${clock(now)} of ${clock(all)}`)
  find('.done').style.width = `${all ? (now / all) * 100 : 0}%`
  events?.moveTo(began + now * 1e6)
}

function showState() {
  main.classList.toggle('playing', !video.paused)
  const label = video.paused ? 'Play' : 'Pause'
  find('.toggle').setAttribute('aria-label', label)
  find('.big').setAttribute('aria-label', label)
}

const toggle = () => {
  if (video.paused) void video.play().catch(() => {})
  else video.pause()
}
const move = (seconds) => {
  video.currentTime = Math.min(duration(), Math.max(0, video.currentTime + seconds))
}
const fullScreen = () => {
  if (document.fullscreenElement) void document.exitFullscreen()
  else void main.requestFullscreen().catch(() => {})
}

/** The activity curve of the time line. */
function drawActivity() {
  const heights = main.dataset.activity.split(' ').filter(Boolean).map(Number)
  const svg = find('.activity')
  svg.setAttribute('viewBox', `0 0 ${heights.length || 1} 100`)
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  path.setAttribute('d', heights.map((height, at) => (height > 0 ? `M${at} 100v${-Math.max(6, height)}h.8V100z` : '')).join(''))
  svg.append(path)
}

/** Marks of events on the time line, one for each kind in each part of it; failures reach higher. */
function drawMarks(lines, kindOf) {
  const all = duration()
  const svg = find('.marks')
  if (!(all > 0)) return
  const marks = new Map()
  for (const line of lines) {
    const part = Math.floor(((line.ts - began) / 1e6 / all) * MARK_PARTS)
    if (part < 0 || part > MARK_PARTS) continue
    const kind = kindOf(line)
    const kinds = marks.get(kind) ?? new Map()
    marks.set(kind, kinds.set(part, kinds.get(part) || line.tone === 'bad'))
  }
  svg.setAttribute('viewBox', `0 0 ${MARK_PARTS} 100`)
  svg.replaceChildren(
    ...[...marks].map(([kind, parts], row) => {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
      path.setAttribute('d', [...parts].map(([part, isBad]) => (isBad ? `M${part} 0v100h2V0z` : `M${part} ${10 + row * 11}v16h2v-16z`)).join(''))
      path.dataset.kind = kind
      return path
    }),
  )
}

/** The list of events, which comes page by page while the video already plays. */
async function openEvents() {
  const { eventList, kindOf } = await import(main.dataset.list)
  const get = async (path) => {
    const response = await fetch(`${path}${path.includes('?') ? '&' : '?'}${location.search.slice(1)}`)
    if (!response.ok) throw new Error(`the service answered ${response.status}`)
    return response.json()
  }
  let shown = []
  const marks = () => drawMarks(shown, kindOf)
  events = eventList(find('.events'), {
    when({ ts }) {
      const seconds = Math.max(0, (ts - began) / 1e6)
      return `${clock(seconds)}.${Math.floor(seconds * 10 + 0.001) % 10}`
    },
    details: ({ seq }) => get(`events/${seq}`),
    jump({ ts }) {
      video.currentTime = Math.min(duration(), Math.max(0, (ts - began) / 1e6))
    },
    changed(lines) {
      shown = lines
      marks()
    },
  })
  for (const name of ['loadedmetadata', 'durationchange']) video.addEventListener(name, marks)
  const button = (text, act) => {
    const made = document.createElement('button')
    made.type = 'button'
    made.textContent = text
    made.addEventListener('click', act)
    return made
  }
  async function load(after) {
    let next = after
    try {
      for (let loaded = 0; next !== undefined && loaded < EVENTS_AT_ONCE;) {
        const page = await get(`events?after=${next}`)
        events.add(page.events)
        loaded += page.events.length
        next = page.next
      }
      if (next !== undefined)
        events.say(
          `The first ${events.length} events.`,
          button('Load more', () => void load(next)),
        )
    } catch {
      events.say(
        'The events could not be loaded.',
        button('Try again', () => void load(next)),
      )
    }
    show()
  }
  await load(0)
}

function toggleEvents() {
  const panel = find('.events')
  panel.hidden = !panel.hidden
  find('.list').setAttribute('aria-expanded', String(!panel.hidden))
  if (!panel.hidden) events?.shown()
}

const KEYS = {
  ' ': toggle,
  k: toggle,
  f: fullScreen,
  e: () => main.dataset.list && toggleEvents(),
  ArrowLeft: () => move(-5),
  ArrowRight: () => move(5),
  j: () => move(-10),
  l: () => move(10),
  ',': () => (video.pause(), move(-0.1)),
  '.': () => (video.pause(), move(0.1)),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
}
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const { tagName, type } = event.target
  // A button handles space itself; the list of speeds and the search handle all keys.
  if (tagName === 'SELECT' || type === 'search' || (event.key === ' ' && /^(BUTTON|A)$/.test(tagName))) return
  const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key]
  if (!act) return
  event.preventDefault()
  act()
})

for (const name of ['timeupdate', 'seeking', 'seeked', 'loadedmetadata', 'durationchange']) video.addEventListener(name, show)
for (const name of ['play', 'pause', 'ended']) video.addEventListener(name, showState)
video.addEventListener('error', () => (find('.problem').hidden = false))
video.addEventListener('click', toggle)
find('.toggle').addEventListener('click', toggle)
find('.big').addEventListener('click', toggle)
find('.full').addEventListener('click', fullScreen)
find('.speed select').addEventListener('change', (event) => (video.playbackRate = Number(event.target.value)))
seek.addEventListener('input', () => {
  video.currentTime = Number(seek.value)
  show()
})
seek.addEventListener('pointermove', (event) => {
  const { left, width } = seek.getBoundingClientRect()
  const part = Math.min(1, Math.max(0, (event.clientX - left) / width))
  tip.hidden = false
  tip.style.left = `${part * 100}%`
  tip.textContent = `${clock(part * duration())} · ${timeOfDay(part * duration())}`
})
seek.addEventListener('pointerleave', () => (tip.hidden = true))

find('.download').href = address
video.src = address
drawActivity()
show()
if (main.dataset.list) {
  find('.list').addEventListener('click', toggleEvents)
  void openEvents()
}
