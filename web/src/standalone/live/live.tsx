// The live view: the picture of a session, the bar above it, and a message when there is no picture.
import './live.css'
import { useEffect, useRef, useState, type ReactNode, type RefObject } from 'react'
import { createRoot } from 'react-dom/client'
import { copy } from '../../ui/clipboard.ts'
import { pageData } from '../data.ts'
import { EventList } from '../events/event-list.tsx'
import { Icon } from '../icon.tsx'
import { takeKeys } from './keys.ts'
import { keepLine, type Channel } from './line.ts'
import { LiveEvents, when } from './live-events.ts'
import { Picture } from './picture.ts'

const TOAST_MS = 4000
/** How long a hidden tab keeps its connection, so that a short absence does not lose the picture. */
const HIDDEN_MS = 2000

interface View {
  title: string
  /** The start of the paths of the page's requests. */
  base: string
  /** An address without the right to control, for sharing. A page without that right has none. */
  watch?: string
  /** The text for each reason, from the socket, for which a session ended. */
  endings: Record<string, string>
}
const { title, base, watch, endings } = pageData<View>()
const isControl = watch !== undefined
const isTouched = matchMedia('(pointer: coarse)').matches
const events = new LiveEvents(base)

/** Reasons, other than a broken connection, why there is no picture. */
const TROUBLES: Record<string, Notice> = {
  no_picture: { title: 'There is no picture', text: 'The service could not show this screen. Trying again…' },
  too_many_viewers: { title: 'Too many viewers', text: 'This session has reached its limit of viewers. Trying again…' },
}

interface Notice {
  title: string
  text: string
}
interface Shown {
  state: 'connecting' | 'live' | 'ended'
  status: string
  notice: Notice | undefined
  /** On the link of a login this changes with the state of the login. */
  mayControl: boolean
  viewers: number
  /** The text that was last copied in the session. */
  copied: string
}
const FIRST: Shown = {
  state: 'connecting',
  status: 'Connecting…',
  notice: { title: 'Connecting…', text: 'The screen of the session will appear in a moment.' },
  mayControl: isControl,
  viewers: 0,
  copied: '',
}

interface Parts {
  screen: RefObject<HTMLDivElement | null>
  last: RefObject<HTMLCanvasElement | null>
  keys: RefObject<HTMLTextAreaElement | null>
}

/** The connection: its state, the picture, and the channel to the session. */
function useLive({ screen, last, keys }: Parts, toast: (text: string) => void) {
  const [shown, set] = useState(FIRST)
  const now = useRef<{ rfb?: Picture | undefined; channel?: Channel; isActual?: boolean }>({})
  useEffect(() => {
    const change = (more: Partial<Shown>): void => set((before) => ({ ...before, ...more }))
    let state: Shown['state'] = 'connecting'
    const become = (next: Shown['state'], status: string, more: Partial<Shown> = {}): void => {
      state = next
      document.body.dataset.state = next
      change({ state, status, ...more })
    }
    /** Keeps the last picture visible while there is no connection. */
    const keepPicture = (): void => {
      const canvas = screen.current!.querySelector('canvas')
      if (!canvas || canvas.width === 0) return
      last.current!.width = canvas.width
      last.current!.height = canvas.height
      last.current!.getContext('2d')!.drawImage(canvas, 0, 0)
      last.current!.hidden = false
    }
    /** Text copied in the session goes to this device's clipboard if this viewer probably copied it. */
    const onCopied = async (text: string, isInitial = false): Promise<void> => {
      change({ copied: text })
      if (isInitial || !document.hasFocus() || navigator.userActivation?.isActive === false) return
      toast((await copy(text)) ? 'Copied' : 'Copied in the session. Press Clipboard to see the text.')
    }
    const steady = keepLine(base, {
      open(channel) {
        const rfb = new Picture(screen.current!, channel, { shared: true })
        Object.assign(rfb, { viewOnly: !isControl, background: 'transparent', focusOnClick: false, scaleViewport: !now.current.isActual })
        Object.assign(now.current, { rfb, channel })
        rfb.addEventListener('connect', () => {
          steady()
          last.current!.hidden = true
          toast('')
          become('live', 'Live', { notice: undefined })
          if (document.hidden) channel.tell({ type: 'hidden', hidden: true })
          // A focused field would open a phone's keyboard.
          if (!isTouched && document.hasFocus() && document.activeElement === document.body) keys.current?.focus({ preventScroll: true })
        })
      },
      told(what) {
        if (what.type === 'hello') {
          if (now.current.rfb) now.current.rfb.viewOnly = !what.control
          change({ mayControl: what.control })
        } else if (what.type === 'viewers') change({ viewers: what.count })
        else if (what.type === 'waiting') become('live', what.waiting ? 'Waiting for the agent…' : 'Live')
        else void onCopied(what.text, what.initial)
      },
      lost(why) {
        if (why !== undefined && why in TROUBLES) return change({ notice: TROUBLES[why] })
        if (state !== 'live') return
        keepPicture()
        become('connecting', 'Reconnecting…')
      },
      ended(reason = '', message) {
        become('ended', 'Ended', { notice: { title: 'This session has ended', text: message ?? endings[reason] ?? 'It is closed.' } })
        document.title = `Ended: ${title}`
        events.end()
        now.current.rfb = undefined
      },
    })
    let timer: ReturnType<typeof setTimeout>
    document.addEventListener('visibilitychange', () => {
      clearTimeout(timer)
      if (document.hidden) timer = setTimeout(() => now.current.channel?.tell({ type: 'hidden', hidden: true }), HIDDEN_MS)
      else now.current.channel?.tell({ type: 'hidden', hidden: false })
    })
    // The page keeps one connection while it is open.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [])
  return { shown, now: now.current }
}

interface ToolProps {
  id: string
  name: string
  d: string
  onClick: () => void
  /** Shown beside the icon if there is room. */
  words?: string
  isPressed?: boolean
  isExpanded?: boolean
  controls?: string
}

const Tool = ({ id, name, d, onClick, words, isPressed, isExpanded, controls }: ToolProps) => (
  <button
    type="button"
    id={id}
    aria-label={name}
    title={name}
    aria-pressed={isPressed}
    aria-expanded={isExpanded}
    aria-controls={isExpanded ? controls : undefined}
    onClick={onClick}
  >
    <Icon d={d} />
    {words && <span className="words">{words}</span>}
  </button>
)

const DRAWINGS = {
  keyboard: 'M2.500 6h19v12h-19zM6 10h.01M10 10h.01M14 10h.01M18 10h.01M6 14h.01M18 14h.01M9.500 14h5',
  clipboard: 'M5 4.500h14V21H5zM9 4.500V3h6v3H9zM9 11h6M9 15h6',
  events: 'M4 6h.01M8.500 6H20M4 12h.01M8.500 12H20M4 18h.01M8.500 18H20',
  actual: 'M9 4H4v5M15 20h5v-5M4 4l6 6M20 20l-6-6',
  share: 'M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.700-5.700l-1.600 1.600M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.700 5.700l1.600-1.600',
  full: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
}

async function fullScreen(): Promise<void> {
  if (document.fullscreenElement) return document.exitFullscreen()
  await document.documentElement.requestFullscreen()
  // Where the browser allows it, this also captures keys that the browser itself uses.
  const { keyboard } = navigator as unknown as { keyboard?: { lock?: () => Promise<void> } }
  await keyboard?.lock?.().catch(() => {})
}

const focusById = (id: string): void => document.getElementById(id)?.focus()

interface ToolbarProps {
  /** The session has not ended yet. */
  isOn: boolean
  isPanel: boolean
  isListed: boolean
  isActual: boolean
  isFull: boolean
  focusKeys: () => void
  togglePanel: () => void
  toggleList: () => void
  toggleActual: () => void
  share: () => void
}

function Toolbar({ isOn, isPanel, isListed, isActual, isFull, focusKeys, togglePanel, toggleList, toggleActual, share }: ToolbarProps) {
  const mayAct = isControl && isOn
  return (
    <div className="tools" role="toolbar" aria-label="Live view">
      {mayAct && matchMedia('(any-pointer: coarse)').matches && <Tool id="keyboard" name="Keyboard" d={DRAWINGS.keyboard} onClick={focusKeys} />}
      {mayAct && (
        <Tool id="clipboard" name="Clipboard" words="Clipboard" d={DRAWINGS.clipboard} isExpanded={isPanel} controls="clipboard-panel" onClick={togglePanel} />
      )}
      <Tool id="events-open" name="Events" words="Events" d={DRAWINGS.events} isExpanded={isListed} controls="events" onClick={toggleList} />
      {isOn && <Tool id="actual" name="Actual size" words="Actual size" d={DRAWINGS.actual} isPressed={isActual} onClick={toggleActual} />}
      {mayAct && <Tool id="share" name="Copy view-only link" words="View-only link" d={DRAWINGS.share} onClick={share} />}
      {document.fullscreenEnabled && (
        <Tool id="full" name="Full screen" words="Full screen" d={DRAWINGS.full} isPressed={isFull} onClick={() => void fullScreen()} />
      )}
    </div>
  )
}

function Live() {
  const screen = useRef<HTMLDivElement>(null)
  const last = useRef<HTMLCanvasElement>(null)
  const keys = useRef<HTMLTextAreaElement>(null)
  const [toast, setToast] = useState<{ text: string; ms: number }>()
  const say = (text: string, ms = TOAST_MS): void => setToast(text === '' ? undefined : { text, ms })
  const { shown, now } = useLive({ screen, last, keys }, say)
  const [isActual, setActual] = useState(false)
  const [isFull, setFull] = useState(false)
  const [isPanel, openPanel] = useState(false)
  const [isListed, openList] = useState(false)
  const { state, status, notice } = shown
  const hasEnded = state === 'ended'
  const focusKeys = (): void => keys.current?.focus({ preventScroll: true })

  useEffect(() => {
    const timer = toast && setTimeout(() => setToast(undefined), toast.ms)
    return () => clearTimeout(timer)
  }, [toast])
  useEffect(() => {
    now.isActual = isActual
    if (now.rfb) now.rfb.scaleViewport = !isActual
  }, [now, isActual])
  useEffect(() => {
    document.addEventListener('fullscreenchange', () => setFull(document.fullscreenElement !== null))
    if (!isControl) return
    takeKeys(keys.current!, {
      send: (keysym, code, down) => now.rfb?.sendKey(keysym, code, down),
      paste: (text) => text !== '' && now.channel!.tell({ type: 'clipboard', text }),
      leave: () => focusById('full'),
    })
  }, [now])

  const panel = (open: boolean): void => {
    openPanel(open)
    if (!open) focusById('clipboard')
  }
  const list = (open: boolean): void => {
    openList(open)
    if (open) return events.open()
    events.close()
    focusById('events-open')
  }
  const share = async (): Promise<void> => {
    const link = new URL(watch!, location.href).href
    say((await copy(link)) ? 'View-only link copied' : link, 8000)
  }
  return (
    <>
      <header className="bar">
        <h1 title={title}>{title}</h1>
        <p className="status">
          <span className="dot" aria-hidden="true" />
          <span role="status">{status}</span>
        </p>
        {!shown.mayControl && <p className="badge">View only</p>}
        {state === 'live' && shown.viewers > 1 && <p className="count">{shown.viewers} watching</p>}
        <Toolbar
          isOn={!hasEnded}
          {...{ isPanel, isListed, isActual, isFull, focusKeys }}
          togglePanel={() => panel(!isPanel)}
          toggleList={() => list(!isListed)}
          toggleActual={() => setActual(!isActual)}
          share={() => void share()}
        />
      </header>
      <div className="middle">
        <main
          id="stage"
          aria-label="Screen of the session"
          // A touch must not open or close a phone's keyboard; its button does that.
          onPointerDown={({ pointerType }) => pointerType === 'mouse' && setTimeout(focusKeys)}
          onFocus={({ target }) => target instanceof HTMLCanvasElement && focusKeys()}
        >
          <canvas id="last" aria-hidden="true" hidden ref={last} />
          <div id="screen" ref={screen} />
          {isControl && (
            <textarea
              id="keys"
              ref={keys}
              rows={1}
              aria-label="Keyboard of the session. Press Ctrl, Alt and Shift together to return to the toolbar."
              autoCapitalize="off"
              autoComplete="off"
              autoCorrect="off"
              spellCheck="false"
              hidden={hasEnded}
            />
          )}
          {notice && (
            <section className="card" aria-labelledby="notice-title">
              <h2 id="notice-title">{notice.title}</h2>
              <p id="notice-text">{notice.text}</p>
            </section>
          )}
          <p className="toast" role="status">
            {toast?.text}
          </p>
        </main>
        {isListed && (
          <Side onClose={() => list(false)}>
            <EventList events={events} when={when} details={(line) => events.detailsOf(line)} />
          </Side>
        )}
      </div>
      {isPanel && !hasEnded && (
        <ClipboardPanel
          text={shown.copied}
          onClose={() => panel(false)}
          say={say}
          give={(text) => {
            now.channel!.tell({ type: 'clipboard', text })
            say('Put into the session. Paste it there with Ctrl+V.')
          }}
        />
      )}
    </>
  )
}

function Side({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  const side = useRef<HTMLElement>(null)
  // A focused field would open a phone's keyboard.
  useEffect(() => side.current!.querySelector<HTMLElement>(isTouched ? 'button' : 'input')!.focus(), [])
  return (
    <section
      className="side"
      id="events"
      aria-labelledby="events-title"
      ref={side}
      onKeyDown={(event) => event.key === 'Escape' && !event.defaultPrevented && onClose()}
    >
      <div className="side-head">
        <h2 id="events-title">Events</h2>
        <button className="button quiet" type="button" aria-label="Close the events" onClick={onClose}>
          ×
        </button>
      </div>
      {children}
    </section>
  )
}

interface PanelProps {
  text: string
  onClose: () => void
  say: (text: string) => void
  give: (text: string) => void
}

function ClipboardPanel({ text, onClose, say, give }: PanelProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => field.current!.focus(), [])
  // Text that was copied in the meantime replaces the field's text.
  useEffect(() => void (field.current!.value = text), [text])
  const take = async (): Promise<void> =>
    say((await copy(field.current!.value)) ? 'Copied' : 'This browser does not allow the page to copy. Select the text and copy it yourself.')
  return (
    <section className="panel" id="clipboard-panel" aria-labelledby="panel-title" onKeyDown={(event) => event.key === 'Escape' && onClose()}>
      <h2 id="panel-title">Clipboard</h2>
      <p className="muted" id="panel-text">
        This text was copied in the session. Change it here to paste other text there.
      </p>
      <textarea ref={field} rows={5} aria-labelledby="panel-title" aria-describedby="panel-text" spellCheck="false" />
      <div className="buttons">
        <button className="button" type="button" onClick={() => void take()}>
          Copy to my device
        </button>
        <button className="button" type="button" onClick={() => give(field.current!.value)}>
          Put into the session
        </button>
      </div>
    </section>
  )
}

createRoot(document.body).render(<Live />)
