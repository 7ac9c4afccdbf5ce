// The player's behaviour. Its page says when the video begins and how much changed on the screen.
const main = document.querySelector('.player')
const find = (selector) => main.querySelector(selector)
const video = find('video')
const seek = find('.seek')
const tip = find('.tip')
const startedAt = Number(main.dataset.started)
const address = `video${location.search}`

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

const KEYS = {
  ' ': toggle,
  k: toggle,
  f: fullScreen,
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
  const { tagName } = event.target
  // A button handles space itself, and the list of speeds handles all keys.
  if (tagName === 'SELECT' || (event.key === ' ' && /^(BUTTON|A)$/.test(tagName))) return
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
