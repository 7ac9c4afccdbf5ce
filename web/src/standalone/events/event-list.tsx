// The list of events beside a picture. Only visible lines are in the document, so a hundred thousand lines scroll as fast as ten.
import './event-list.css'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'react'
import type { EventDetails } from '../../../../src/control/sessions/telemetry/shown/contract.ts'
import { KINDS, type Events, type Kind, type Line } from './events.ts'

/** The number of lines above and below the view that are also in the document. */
const MARGIN = 6
/** The height of a line in pixels. It is larger on touch screens. */
const rowHeight = (): number => (matchMedia('(pointer: coarse), (max-width: 720px)').matches ? 48 : 36)

interface Props {
  events: Events
  /** The text of a line's time. */
  when: (line: Line) => string
  details: (line: Line) => Promise<EventDetails>
  /** Jumps to the moment of a line. Without it, a click on a line opens it, and the newest line is the present one. */
  jump?: (line: Line) => void
}

/** The line whose details are shown. `found` is missing while they load. */
interface Opened {
  line: Line
  found?: EventDetails | 'failed'
}

/** Renders again after changes of the events (at most once per frame) or of the view's size. */
function useChanges(events: Events, view: React.RefObject<HTMLElement | null>): () => void {
  const [, draw] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    let frame = 0
    const ended = events.listen(() => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(() => draw())
    })
    return () => {
      ended()
      cancelAnimationFrame(frame)
    }
  }, [events])
  useEffect(() => {
    const observer = new ResizeObserver(() => draw())
    observer.observe(view.current!)
    return () => observer.disconnect()
  }, [view])
  return draw
}

/** The list has handled this key, so the browser and the page must not. */
function consume(event: React.KeyboardEvent): void {
  event.preventDefault()
  event.stopPropagation()
}

/** The line whose details are shown, and a function that loads the details of another line. */
function useOpened(details: Props['details']) {
  const [opened, set] = useState<Opened>()
  const load = (line: Line): void => {
    set({ line })
    const end = (found: EventDetails | 'failed'): void => set((now) => (now?.line === line ? { line, found } : now))
    details(line).then(end, () => end('failed'))
  }
  return { opened, load, close: () => set(undefined) }
}

export function EventList({ events, when, details, jump }: Props) {
  const view = useRef<HTMLDivElement>(null)
  const draw = useChanges(events, view)
  const list = useRef<HTMLOListElement>(null)
  const [isFollowing, follow] = useState(true)
  /** The line that Tab reaches, and the element in it that gets the focus after the next rendering. */
  const [chosen, choose] = useState(0)
  const wanted = useRef<string>(undefined)
  const { opened, load, close } = useOpened(details)
  const { lines, status } = events
  const row = rowHeight()
  const present = jump ? events.present : -1
  const active = Math.max(0, Math.min(chosen, lines.length - 1))
  const { scrollTop = 0, clientHeight = 0 } = view.current ?? {}

  const scrollTo = (at: number, isCentred = false): void => {
    if (view.current && at >= 0) scrollToRow(view.current, at * row, row, isCentred)
  }
  useLayoutEffect(() => {
    if (isFollowing && lines.length > 0) scrollTo(jump ? Math.max(0, present) : lines.length - 1, jump !== undefined)
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isFollowing, lines, present, clientHeight, row])
  useLayoutEffect(() => {
    // The details reduce the list's height. The opened line should stay in view.
    if (opened) scrollTo(lines.indexOf(opened.line))
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [opened])
  useLayoutEffect(() => {
    if (wanted.current !== undefined)
      list.current!.querySelector<HTMLElement>(`[aria-posinset="${active + 1}"] ${wanted.current}`)?.focus({ preventScroll: true })
    wanted.current = undefined
  })

  const focusOn = (at: number, selector: string): void => {
    const to = Math.max(0, Math.min(at, lines.length - 1))
    scrollTo(to)
    wanted.current = selector
    choose(to)
    draw()
  }
  const open = (line: Line): void => {
    if (lines[present] !== line) follow(false)
    load(line)
  }
  const shut = (): void => {
    close()
    focusOn(active, '.ev-line')
  }
  const press = (line: Line, at: number, isForDetails: boolean): void => {
    choose(at)
    if (jump && !isForDetails) {
      follow(true)
      jump(line)
      if (opened) open(line)
    } else if (opened?.line === line) shut()
    else open(line)
  }

  const onKey = (event: React.KeyboardEvent): void => {
    const step = stepOf(event.key, Math.max(1, Math.floor(clientHeight / row) - 1))
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    consume(event)
    follow(false)
    focusOn(active + step, document.activeElement!.classList.contains('ev-open') ? '.ev-open' : '.ev-line')
  }
  const onEscape = (event: React.KeyboardEvent): void => {
    if (event.key !== 'Escape' || !opened) return
    consume(event)
    shut()
  }
  const onScroll = (): void => {
    const { current } = view
    // When the person scrolls back to the end, the list of a running session follows new events again.
    if (!jump && current!.scrollTop + current!.clientHeight >= lines.length * row - 2) follow(true)
    draw()
  }
  // The person scrolls. A press outside of any line is on the list's scroll bar.
  const onWheel = (): void => {
    if (lines.length * row > clientHeight) follow(false)
  }
  return (
    <div className="events" onKeyDown={onEscape} style={{ '--row': `${row}px` } as React.CSSProperties}>
      <Filter events={events} />
      <Status {...status} isSpoken={jump !== undefined} />
      <div className="ev-body">
        <div
          className="ev-view"
          ref={view}
          onScroll={onScroll}
          onWheel={onWheel}
          onTouchMove={onWheel}
          onPointerDown={({ target }) => target === view.current && follow(false)}
        >
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
          <ol className="ev-list" role="list" ref={list} style={{ height: `${lines.length * row}px` }} onKeyDown={onKey}>
            {rowsInView(scrollTop, clientHeight, row, lines.length, active).map((at) => (
              <Row
                key={lines[at]!.seq}
                line={lines[at]!}
                place={{ at, of: lines.length, top: at * row }}
                time={when(lines[at]!)}
                isPresent={at === present}
                isOpened={opened?.line === lines[at]}
                isActive={at === active}
                hasDetailsButton={jump !== undefined}
                press={(isForDetails) => press(lines[at]!, at, isForDetails)}
              />
            ))}
          </ol>
        </div>
        {!isFollowing && (
          <button type="button" className="ev-follow" onClick={() => follow(true)}>
            {jump ? 'Follow the video' : 'Newest'}
          </button>
        )}
      </div>
      {opened && <OpenedLine {...opened} shut={shut} />}
    </div>
  )
}

/** Scrolls no further than needed to show a row that starts at `top`, in pixels. */
function scrollToRow(view: HTMLElement, top: number, height: number, isCentred: boolean): void {
  const inView = view.clientHeight
  if (isCentred) view.scrollTop = top - inView / 2 + height / 2
  else if (top < view.scrollTop) view.scrollTop = top
  else if (top + height > view.scrollTop + inView) view.scrollTop = top + height - inView
}

/** How many lines a key moves the focus; `page` is the number of lines in view. */
const stepOf = (key: string, page: number): number | undefined =>
  ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity })[key]

/** The numbers of the rows that are in the document, in order. */
function rowsInView(scrollTop: number, clientHeight: number, row: number, count: number, active: number): number[] {
  const first = Math.max(0, Math.floor(scrollTop / row) - MARGIN)
  const end = Math.min(count, Math.ceil((scrollTop + clientHeight) / row) + MARGIN)
  const shown = Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at)
  // The focused line stays in the document when it is scrolled out of view, and Tab always finds a line.
  if (count > 0 && !shown.includes(active)) shown.push(active)
  return shown.sort((one, other) => one - other)
}

/** With `isSpoken`, screen readers announce changes. Without it they do not, because a number that changes all the time would disturb. */
const Status = ({ text, action, isSpoken }: Events['status'] & { isSpoken: boolean }) => (
  <p className="ev-status" role={isSpoken ? 'status' : undefined}>
    {text}
    {action && (
      <>
        {' '}
        <button type="button" onClick={action.act}>
          {action.name}
        </button>
      </>
    )}
  </p>
)

/** The search field, and the buttons of the kinds. */
const Filter = ({ events }: Pick<Props, 'events'>) => (
  <div className="ev-tools">
    <input
      type="search"
      placeholder="Search"
      aria-label="Search events"
      autoComplete="off"
      spellCheck="false"
      defaultValue={events.query}
      onInput={({ currentTarget }) => events.search(currentTarget.value)}
    />
    <div className="ev-kinds" role="group" aria-label="Kinds of events">
      {(Object.keys(KINDS) as Kind[]).map(
        (kind) =>
          events.counts[kind] > 0 && (
            <button key={kind} type="button" className="ev-kind" data-kind={kind} aria-pressed={!events.hidden.has(kind)} onClick={() => events.toggle(kind)}>
              <Dot kind={kind} />
              {KINDS[kind].name}
              <span className="muted">{events.counts[kind]}</span>
            </button>
          ),
      )}
    </div>
  </div>
)

const Dot = ({ kind }: { kind: Kind }) => <span className="ev-dot" style={{ background: KINDS[kind].colour }} />

interface RowProps {
  line: Line
  /** `top` is the distance from the list's start in pixels. */
  place: { at: number; of: number; top: number }
  time: string
  isPresent: boolean
  isOpened: boolean
  isActive: boolean
  hasDetailsButton: boolean
  press: (isForDetails: boolean) => void
}

function Row({ line, place, time, isPresent, isOpened, isActive, hasDetailsButton, press }: RowProps) {
  const tabIndex = isActive ? 0 : -1
  return (
    <li
      className={isOpened ? 'ev-row ev-opened' : 'ev-row'}
      data-tone={line.tone}
      aria-current={isPresent ? 'true' : undefined}
      aria-setsize={place.of}
      aria-posinset={place.at + 1}
      style={{ transform: `translateY(${place.top}px)` }}
    >
      <button type="button" className="ev-line" tabIndex={tabIndex} title={line.text} onClick={() => press(false)}>
        <span className="ev-when">{time}</span>
        <Dot kind={line.kind} />
        <span className="visually-hidden">
          {KINDS[line.kind].name}
          {line.tone === 'bad' ? ', failed' : ''}:{' '}
        </span>
        <span className="ev-text" dir="auto">
          {line.text}
        </span>
        {line.note && (
          <span className="ev-note" dir="auto">
            {line.note}
          </span>
        )}
      </button>
      {hasDetailsButton && (
        <button type="button" className="ev-open" tabIndex={tabIndex} aria-label="Details" onClick={() => press(true)}>
          ›
        </button>
      )}
    </li>
  )
}

const OpenedLine = ({ line, found, shut }: Opened & { shut: () => void }) => (
  <section className="ev-details" aria-label="Details of an event">
    <div className="ev-head">
      <h2>{line.text}</h2>
      <button type="button" className="ev-close" aria-label="Close the details" onClick={shut}>
        ×
      </button>
    </div>
    <div className="ev-content" key={`${line.seq} ${String(found === undefined)}`} tabIndex={0} role="group" aria-label="Details">
      {found === undefined ? <p>Loading…</p> : found === 'failed' ? <p>The details could not be loaded.</p> : <Details {...found} />}
    </div>
  </section>
)

/** The details of an event: short facts, then longer texts. */
const Details = ({ facts, blocks, png, isBrief }: EventDetails) => (
  <>
    <dl>
      {facts.map(([name, value], at) => [
        <dt key={`name ${at}`}>{name.replaceAll('_', ' ')}</dt>,
        <dd key={`value ${at}`} dir="auto">
          {value}
        </dd>,
      ])}
    </dl>
    {blocks.map(([name, text], at) => [
      <h3 key={`name ${at}`}>{name}</h3>,
      <pre key={`text ${at}`} dir="auto">
        {text}
      </pre>,
    ])}
    {png && <img src={`data:image/png;base64,${png}`} alt="The screen at this moment" />}
    {isBrief && <p>This link shows no headers, bodies, typed text or values in addresses.</p>}
  </>
)
