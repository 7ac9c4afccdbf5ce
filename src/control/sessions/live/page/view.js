// The live view's page: the picture, the bar above it, and the message when there is no picture.
import RFB from 'novnc-core/rfb.js'
import { initLogging } from 'novnc-core/util/logging.js'
import { openEventList } from './events.js'
import { takeKeys } from './keys.js'
import { keepLine } from './line.js'
import { Notches } from './wheel.js'

const TOAST_MS = 4000
/** How long a hidden tab keeps its connection, so that a short absence does not lose the picture. */
const HIDDEN_MS = 2000

/** Reasons, other than a broken connection, why there is no picture. */
const TROUBLES = {
  no_picture: ['There is no picture', 'The service could not show this screen. Trying again…'],
  too_many_viewers: ['Too many viewers', 'This session has reached its limit of viewers. Trying again…'],
}

const at = (id) => document.getElementById(id)
const { base, watch, endings } = document.body.dataset
const control = watch !== ''
const [screen, last, keys, copied, panel] = ['screen', 'last', 'keys', 'copied', 'clipboard-panel'].map(at)
const isTouched = matchMedia('(pointer: coarse)').matches
let rfb
let channel
let toastTimer
const events = openEventList(at, base)

function show(state, words) {
  document.body.dataset.state = state
  if (at('status').textContent !== words) at('status').textContent = words
}

function notice(title, text) {
  at('notice').hidden = false
  at('notice-title').textContent = title
  at('notice-text').textContent = text
}

function toast(words, ms = TOAST_MS) {
  clearTimeout(toastTimer)
  at('toast').textContent = words
  at('toast').hidden = words === ''
  if (ms > 0) toastTimer = setTimeout(() => (at('toast').hidden = true), ms)
}

/** The last picture stays while there is no connection. */
function keepPicture() {
  const canvas = screen.querySelector('canvas')
  if (!canvas || canvas.width === 0) return
  last.width = canvas.width
  last.height = canvas.height
  last.getContext('2d').drawImage(canvas, 0, 0)
  last.hidden = false
}

function size() {
  const actual = at('actual').ariaPressed === 'true'
  if (rfb) rfb.scaleViewport = !actual
}

const focusKeys = () => {
  if (control) keys.focus({ preventScroll: true })
}

/** noVNC with a wheel that loses no movement: its own drops the remainder at each notch, and makes at most one notch of each event. */
class Picture extends RFB {
  #across = new Notches()
  #down = new Notches()

  _handleWheel(event) {
    if (this._rfbConnectionState !== 'connected' || this._viewOnly) return
    event.stopPropagation()
    event.preventDefault()
    const { left, top } = this._canvas.getBoundingClientRect()
    const [x, y] = [event.clientX - left, event.clientY - top]
    const held = RFB._convertButtonMask(event.buttons)
    // Buttons 4 to 7 are the wheel: up, down, left, right.
    const turn = (notches, back, ahead) => {
      for (let count = Math.abs(notches); count > 0; count--) {
        this._handleMouseButton(x, y, held | (notches < 0 ? back : ahead))
        this._handleMouseButton(x, y, held)
      }
    }
    turn(this.#across.add(event.deltaX, event.deltaMode, event.timeStamp), 1 << 5, 1 << 6)
    turn(this.#down.add(event.deltaY, event.deltaMode, event.timeStamp), 1 << 3, 1 << 4)
  }
}

const line = keepLine(base, {
  open(opened) {
    channel = opened
    rfb = new Picture(screen, opened, { shared: true })
    rfb.viewOnly = !control
    rfb.background = 'transparent'
    rfb.focusOnClick = false
    size()
    rfb.addEventListener('connect', () => {
      line.steady()
      at('notice').hidden = true
      last.hidden = true
      toast('')
      show('live', 'Live')
      if (document.hidden) opened.tell({ type: 'hidden', hidden: true })
      // A focused field would open a phone's keyboard.
      if (!isTouched && document.hasFocus() && document.activeElement === document.body) focusKeys()
    })
  },
  told(what) {
    // Of the link of a login it changes with what the login does.
    if (what.type === 'hello') {
      at('badge').hidden = what.control
      if (rfb) rfb.viewOnly = !what.control
    } else if (what.type === 'viewers') {
      at('count').hidden = what.count < 2
      at('count').textContent = `${what.count} watching`
    } else if (what.type === 'waiting') show('live', what.waiting ? 'Waiting for the agent…' : 'Live')
    else if (what.type === 'clipboard') void onCopied(what.text, what.initial)
  },
  lost(why) {
    if (why in TROUBLES) return notice(...TROUBLES[why])
    if (document.body.dataset.state !== 'live') return
    keepPicture()
    show('connecting', 'Reconnecting…')
  },
  ended(reason, message) {
    show('ended', 'Ended')
    notice('This session has ended', message ?? JSON.parse(endings)[reason] ?? 'It is closed.')
    document.title = `Ended: ${document.title}`
    for (const id of ['keyboard', 'clipboard', 'actual', 'share', 'count']) at(id).hidden = true
    panel.hidden = true
    keys.hidden = true
    events.end()
    rfb = undefined
  },
})

// The clipboard. Text that is copied in the session goes to this device's clipboard when most likely this viewer copied it.
async function onCopied(text, initial) {
  copied.value = text
  if (initial || !document.hasFocus() || navigator.userActivation?.isActive === false) return
  toast((await copy(text)) ? 'Copied' : 'Copied in the session. Press Clipboard to see the text.')
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // The fallback without TLS, or in a frame without the permission.
    const onCopy = (event) => {
      event.clipboardData.setData('text/plain', text)
      event.preventDefault()
    }
    document.addEventListener('copy', onCopy)
    try {
      return document.execCommand('copy')
    } finally {
      document.removeEventListener('copy', onCopy)
    }
  }
}

function openPanel(open) {
  panel.hidden = !open
  at('clipboard').ariaExpanded = String(open)
  if (open) copied.focus()
  else at('clipboard').focus()
}

if (control) {
  keys.hidden = false
  takeKeys(keys, {
    send: (keysym, code, down) => rfb?.sendKey(keysym, code, down),
    paste: (text) => text !== '' && channel.tell({ type: 'clipboard', text }),
    leave: () => at('full').focus(),
  })
  at('share').hidden = false
  at('clipboard').hidden = false
  at('keyboard').hidden = !matchMedia('(any-pointer: coarse)').matches
  at('keyboard').onclick = focusKeys
  at('clipboard').onclick = () => openPanel(panel.hidden)
  at('take').onclick = async () =>
    toast((await copy(copied.value)) ? 'Copied' : 'This browser does not allow the page to copy. Select the text and copy it yourself.')
  at('give').onclick = () => {
    channel.tell({ type: 'clipboard', text: copied.value })
    toast('Put into the session. Paste it there with Ctrl+V.')
  }
  panel.onkeydown = (event) => event.key === 'Escape' && openPanel(false)
  at('share').onclick = async () => {
    const link = new URL(watch, location.href).href
    toast((await copy(link)) ? 'View-only link copied' : link, 8000)
  }
  // Touches do not open or close a phone's keyboard; its button does.
  at('stage').addEventListener('pointerdown', (event) => event.pointerType === 'mouse' && setTimeout(focusKeys))
  at('stage').addEventListener('focusin', (event) => event.target !== keys && event.target.tagName === 'CANVAS' && focusKeys())
} else at('badge').hidden = false

at('actual').onclick = () => {
  at('actual').ariaPressed = String(at('actual').ariaPressed !== 'true')
  size()
}
at('full').hidden = !document.fullscreenEnabled
at('full').onclick = async () => {
  if (document.fullscreenElement) return document.exitFullscreen()
  await document.documentElement.requestFullscreen()
  // Captures also keys that the outer browser uses itself, where it allows that.
  await navigator.keyboard?.lock?.().catch(() => {})
}
document.addEventListener('fullscreenchange', () => (at('full').ariaPressed = String(document.fullscreenElement !== null)))

let hiddenTimer
document.addEventListener('visibilitychange', () => {
  clearTimeout(hiddenTimer)
  if (document.hidden) hiddenTimer = setTimeout(() => channel.tell({ type: 'hidden', hidden: true }), HIDDEN_MS)
  else channel.tell({ type: 'hidden', hidden: false })
})
initLogging('error')
notice('Connecting…', 'The screen of the session will appear in a moment.')
