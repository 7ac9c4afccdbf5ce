// The list of events beside a picture: only what is in view is in the document, so a hundred thousand lines scroll like ten.
import './event-list.css'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'react'
import type { EventDetails } from '../../../../src/control/sessions/telemetry/shown/contract.ts'
import { KINDS, type Events, type Kind, type Line } from './events.ts'

/** Lines above and below the view that are in the document, too. */
const MARGIN = 6
/** Of a line, in pixels: what is touched is larger. */
const rowHeight = (): number => (matchMedia('(pointer: coarse), (max-width: 720px)').matches ? 48 : 36)

interface Props {
  events: Events
  /** The text of a line's time. */
  when: (line: Line) => string
  details: (line: Line) => Promise<EventDetails>
  /** Goes to the moment of a line. Without it a click on a line opens it, and the newest line is the present one. */
  jump?: (line: Line) => void
}

/** Draws again after changes, at most once a frame. */
function useChanges(events: Events): () => void {
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
  return draw
}

export function EventList({ events, when, details, jump }: Props) {
  const draw = useChanges(events)
  const view = useRef<HTMLDivElement>(null)
  const list = useRef<HTMLOListElement>(null)
  const [isFollowing, follow] = useState(true)
  /** The line that Tab reaches, and what of it gets the focus with the next drawing. */
  const [chosen, choose] = useState(0)
  const wanted = useRef<string>(undefined)
  const [opened, setOpened] = useState<{ line: Line; found?: EventDetails | 'failed' }>()
  const { lines, status } = events
  const row = rowHeight()
  const present = jump ? events.present : -1
  const active = Math.max(0, Math.min(chosen, lines.length - 1))
  const { scrollTop = 0, clientHeight = 0 } = view.current ?? {}

  const scrollTo = (at: number, isCentred = false): void => {
    const { current } = view
    if (!current || at < 0) return
    const [top, inView] = [at * row, current.clientHeight]
    if (isCentred) current.scrollTop = top - inView / 2 + row / 2
    else if (top < current.scrollTop) current.scrollTop = top
    else if (top + row > current.scrollTop + inView) current.scrollTop = top + row - inView
  }
  useEffect(() => {
    const observer = new ResizeObserver(() => draw())
    observer.observe(view.current!)
    return () => observer.disconnect()
  }, [draw])
  useLayoutEffect(() => {
    if (isFollowing && lines.length > 0) scrollTo(jump ? Math.max(0, present) : lines.length - 1, jump !== undefined)
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [isFollowing, lines, present, clientHeight, row])
  useLayoutEffect(() => {
    // There is less room for the list now, and the line should stay in view while somebody reads.
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
    setOpened({ line })
    const end = (found: EventDetails | 'failed'): void => setOpened((now) => (now?.line === line ? { line, found } : now))
    details(line).then(end, () => end('failed'))
  }
  const shut = (): void => {
    setOpened(undefined)
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
    const page = Math.max(1, Math.floor(clientHeight / row) - 1)
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }
    const step = steps[event.key]
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    event.stopPropagation()
    follow(false)
    focusOn(active + step, document.activeElement!.classList.contains('ev-open') ? '.ev-open' : '.ev-line')
  }
  const onEscape = (event: React.KeyboardEvent): void => {
    if (event.key !== 'Escape' || !opened) return
    event.preventDefault()
    event.stopPropagation()
    shut()
  }
  const onScroll = (): void => {
    const { current } = view
    // At its end again, the list of a session goes on with it.
    if (!jump && current!.scrollTop + current!.clientHeight >= lines.length * row - 2) follow(true)
    draw()
  }
  // A person's own scrolling. The bar of the list is the one thing in it that is not in a line.
  const onWheel = (): void => {
    if (lines.length * row > clientHeight) follow(false)
  }

  const first = Math.max(0, Math.floor(scrollTop / row) - MARGIN)
  const shown = Array.from({ length: Math.max(0, Math.min(lines.length, Math.ceil((scrollTop + clientHeight) / row) + MARGIN) - first) }, (_, at) => first + at)
  // Whoever is at a line with the keyboard stays there when it is scrolled away; and Tab always finds one.
  if (lines.length > 0 && !shown.includes(active)) shown.push(active)
  shown.sort((one, other) => one - other)
  return (
    <div className="events" onKeyDown={onEscape} style={{ '--row': `${row}px` } as React.CSSProperties}>
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
          {(Object.entries(KINDS) as [Kind, string][]).map(
            ([kind, name]) =>
              events.counts[kind] > 0 && (
                <button
                  key={kind}
                  type="button"
                  className="ev-kind"
                  data-kind={kind}
                  aria-pressed={!events.hidden.has(kind)}
                  onClick={() => events.toggle(kind)}
                >
                  <span className="ev-dot" />
                  {name}
                  <span className="muted">{events.counts[kind]}</span>
                </button>
              ),
          )}
        </div>
      </div>
      {/* Nobody wants to hear a number that changes all the time. */}
      <p className="ev-status" role={jump ? 'status' : undefined}>
        {status.text}
        {status.action && (
          <>
            {' '}
            <button type="button" onClick={status.action.act}>
              {status.action.name}
            </button>
          </>
        )}
      </p>
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
            {shown.map((at) => {
              const line = lines[at]!
              const tabIndex = at === active ? 0 : -1
              return (
                <li
                  key={line.seq}
                  className={opened?.line === line ? 'ev-row ev-opened' : 'ev-row'}
                  data-kind={line.kind}
                  data-tone={line.tone}
                  aria-current={at === present ? 'true' : undefined}
                  aria-setsize={lines.length}
                  aria-posinset={at + 1}
                  style={{ transform: `translateY(${at * row}px)` }}
                >
                  <button type="button" className="ev-line" tabIndex={tabIndex} title={line.text} onClick={() => press(line, at, false)}>
                    <span className="ev-when">{when(line)}</span>
                    <span className="ev-dot" />
                    <span className="visually-hidden">
                      {KINDS[line.kind]}
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
                  {jump && (
                    <button type="button" className="ev-open" tabIndex={tabIndex} aria-label="Details" onClick={() => press(line, at, true)}>
                      ›
                    </button>
                  )}
                </li>
              )
            })}
          </ol>
        </div>
        {!isFollowing && (
          <button type="button" className="ev-follow" onClick={() => follow(true)}>
            {jump ? 'Follow the video' : 'Newest'}
          </button>
        )}
      </div>
      {opened && (
        <section className="ev-details" aria-label="Details of an event">
          <div className="ev-head">
            <h2>{opened.line.text}</h2>
            <button type="button" className="ev-close" aria-label="Close the details" onClick={shut}>
              ×
            </button>
          </div>
          <div className="ev-content" key={`${opened.line.seq} ${String(opened.found === undefined)}`} tabIndex={0} role="group" aria-label="Details">
            {opened.found === undefined ? <p>Loading…</p> : opened.found === 'failed' ? <p>The details could not be loaded.</p> : <Details {...opened.found} />}
          </div>
        </section>
      )}
    </div>
  )
}

/** The details of an event: facts, then longer texts. */
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
