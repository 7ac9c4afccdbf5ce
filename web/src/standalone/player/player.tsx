// The player of replays: a video, a time line that shows how much the screen changed, and the events beside it.
import './player.css'
import { memo, useEffect, useReducer, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import type { EventDetails, EventLine } from '../../../../src/control/sessions/telemetry/shown/contract.ts'
import { pageData } from '../data.ts'
import { EventList } from '../events/event-list.tsx'
import { Events, KINDS, type Kind, type Line } from '../events/events.ts'
import { Icon } from '../icon.tsx'

interface Replay {
  id: string
  /** The start of the video, in milliseconds. */
  started: number
  /** The same moment on the clock of the session's events, in microseconds. */
  clock: number
  /** How much the screen changed, 0 to 100, in each part of the time. */
  activity: number[]
  hasEvents: boolean
}

/** The number of events that are loaded before the person asks for more. */
const EVENTS_AT_ONCE = 20_000
/** The number of parts into which the time line's marks are grouped. */
const MARK_PARTS = 600
const SPEEDS = [0.5, 1, 2, 4, 8]
const PLAY = 'M8 5v14l11-7z'
const PAUSE = 'M6 5h4v14H6zM14 5h4v14h-4z'

const replay = pageData<Replay>()
const events = new Events()
const main = document.querySelector('main')!

const two = (number: number): string => String(number).padStart(2, '0')
/** Formats seconds as 0:07, 12:34 or 1:02:03. */
function clock(seconds: number): string {
  const whole = Math.floor(seconds + 0.001)
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60]
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`
}
const timeOfDay = (seconds: number): string => new Date(replay.started + seconds * 1000).toLocaleTimeString()
const secondsOf = ({ ts }: EventLine): number => (ts - replay.clock) / 1e6

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${path}${path.includes('?') ? '&' : '?'}${location.search.slice(1)}`)
  if (!response.ok) throw new Error(`the service answered ${response.status}`)
  return response.json() as Promise<T>
}

/** Loads the events page by page while the video already plays. */
async function load(after: number): Promise<void> {
  let next: number | undefined = after
  const again = (name: string) => ({ name, act: () => void load(next!) })
  try {
    for (let loaded = 0; next !== undefined && loaded < EVENTS_AT_ONCE;) {
      const page: { events: EventLine[]; next?: number } = await get(`events?after=${next}`)
      events.add(page.events)
      loaded += page.events.length
      next = page.next
    }
    if (next !== undefined) events.say({ text: `The first ${events.length} events.`, action: again('Load more') })
  } catch {
    events.say({ text: 'The events could not be loaded.', action: again('Try again') })
  }
}

const ACTIVITY = replay.activity.map((height, at) => (height > 0 ? `M${at} 100v${-Math.max(6, height)}h.8V100z` : '')).join('')

/** Marks of events on the time line, one per kind and part. Marks of failures are higher. */
const Marks = memo(({ lines, all }: { lines: readonly Line[]; all: number }) => {
  const kinds = new Map<Kind, Map<number, boolean>>()
  for (const line of lines) {
    const part = Math.floor((secondsOf(line) / all) * MARK_PARTS)
    if (!(part >= 0 && part <= MARK_PARTS)) continue
    const parts = kinds.get(line.kind) ?? new Map<number, boolean>()
    kinds.set(line.kind, parts.set(part, parts.get(part) || line.tone === 'bad'))
  }
  return (
    <svg className="marks" preserveAspectRatio="none" aria-hidden="true" viewBox={`0 0 ${MARK_PARTS} 100`}>
      {[...kinds].map(([kind, parts], row) => (
        <path
          key={kind}
          data-kind={kind}
          fill={KINDS[kind].colour}
          d={[...parts].map(([part, isBad]) => (isBad ? `M${part} 0v100h2V0z` : `M${part} ${10 + row * 11}v16h2v-16z`)).join('')}
        />
      ))}
    </svg>
  )
})

const fullScreen = (): void => {
  if (document.fullscreenElement) void document.exitFullscreen()
  else void main.requestFullscreen().catch(() => {})
}

/** Runs the action of a key, wherever the focus is. */
function useKeys(keys: Record<string, () => void>): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      const { tagName, type } = event.target as HTMLInputElement
      // A button handles the space key itself; the list of speeds and the search handle all keys.
      if (tagName === 'SELECT' || type === 'search' || (event.key === ' ' && /^(BUTTON|A)$/.test(tagName))) return
      const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key]
      if (!act) return
      event.preventDefault()
      act()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [])
}

interface TimeLineProps {
  /** The position and the length of the video, in seconds. */
  now: number
  all: number
  jump: (seconds: number) => void
}

/** The time line: how much the screen changed, marks of events, and the position. */
function TimeLine({ now, all, jump }: TimeLineProps) {
  const [tip, point] = useState<number>()
  return (
    <div className="line">
      <svg className="activity" preserveAspectRatio="none" aria-hidden="true" viewBox={`0 0 ${replay.activity.length || 1} 100`}>
        <path d={ACTIVITY} />
      </svg>
      {all > 0 && <Marks lines={events.lines} all={all} />}
      <div className="done" aria-hidden="true" style={{ width: `${all > 0 ? (now / all) * 100 : 0}%` }} />
      <input
        className="seek"
        type="range"
        min="0"
        max={all || 1}
        step="any"
        value={now}
        aria-label="Position"
        aria-valuetext={`${clock(now)} of ${clock(all)}`}
        onInput={({ currentTarget }) => jump(Number(currentTarget.value))}
        onPointerMove={({ currentTarget, clientX }) => {
          const { left, width } = currentTarget.getBoundingClientRect()
          point(Math.min(1, Math.max(0, (clientX - left) / width)))
        }}
        onPointerLeave={() => point(undefined)}
      />
      {tip !== undefined && (
        <output className="tip" aria-hidden="true" style={{ left: `${tip * 100}%` }}>
          {clock(tip * all)} · {timeOfDay(tip * all)}
        </output>
      )}
    </div>
  )
}

interface ExtrasProps {
  setSpeed: (speed: number) => void
  isListed: boolean
  toggleList: () => void
}

/** Speed, download, and the list of events. */
function Extras({ setSpeed, isListed, toggleList }: ExtrasProps) {
  return (
    <>
      <select aria-label="Speed" title="Speed" defaultValue={1} onChange={({ currentTarget }) => setSpeed(Number(currentTarget.value))}>
        {SPEEDS.map((speed) => (
          <option key={speed} value={speed}>
            {speed}×
          </option>
        ))}
      </select>
      <a className="download" href={`video${location.search}`} download={`replay-${replay.id}.mp4`} aria-label="Download" title="Download">
        <Icon d="M12 4v11M7 10l5 5 5-5M5 19h14" />
      </a>
      {replay.hasEvents && (
        <button type="button" aria-expanded={isListed} aria-controls="events" aria-label="Events" title="Events (e)" onClick={toggleList}>
          <Icon d="M4 6h.01M8.500 6H20M4 12h.01M8.500 12H20M4 18h.01M8.500 18H20" />
        </button>
      )}
    </>
  )
}

function Player() {
  const video = useRef<HTMLVideoElement>(null)
  const [, draw] = useReducer((count: number) => count + 1, 0)
  const [isListed, list] = useState(replay.hasEvents)
  const [isBroken, breaks] = useState(false)
  const now = video.current?.currentTime ?? 0
  const all = Number.isFinite(video.current?.duration) ? video.current!.duration : 0
  const isPlaying = video.current !== null && !video.current.paused
  const label = isPlaying ? 'Pause' : 'Play'

  const toggle = (): void => {
    const { current } = video
    if (current!.paused) void current!.play().catch(() => {})
    else current!.pause()
  }
  const jump = (seconds: number): void => {
    video.current!.currentTime = Math.min(video.current!.duration || 0, Math.max(0, seconds))
  }
  const move = (seconds: number): void => jump(video.current!.currentTime + seconds)
  const tick = (): void => {
    events.moveTo(replay.clock + video.current!.currentTime * 1e6)
    draw()
  }

  useEffect(() => events.listen(draw), [])
  useKeys({
    ' ': toggle,
    k: toggle,
    f: fullScreen,
    e: () => replay.hasEvents && list((is) => !is),
    ArrowLeft: () => move(-5),
    ArrowRight: () => move(5),
    j: () => move(-10),
    l: () => move(10),
    ',': () => (video.current!.pause(), move(-0.1)),
    '.': () => (video.current!.pause(), move(0.1)),
    Home: () => move(-Infinity),
    End: () => move(Infinity),
  })

  return (
    <>
      <h1 className="visually-hidden">Replay</h1>
      <div className="screen">
        <div className="stage">
          <video
            ref={video}
            src={`video${location.search}`}
            playsInline
            preload="metadata"
            tabIndex={-1}
            aria-label="Recorded screen"
            onClick={toggle}
            onError={() => breaks(true)}
            onTimeUpdate={tick}
            onSeeking={tick}
            onSeeked={tick}
            onLoadedMetadata={tick}
            onDurationChange={tick}
            onPlay={draw}
            onPause={draw}
            onEnded={draw}
          />
          {!isPlaying && (
            <button className="big" type="button" aria-label={label} onClick={toggle}>
              <Icon isFilled d={PLAY} />
            </button>
          )}
          <p className="problem" role="alert">
            {isBroken && 'This browser cannot play the video. You can still download it.'}
          </p>
        </div>
        <div className="bar" role="group" aria-label="Controls">
          <TimeLine now={now} all={all} jump={jump} />
          <button className="toggle" type="button" aria-label={label} title="Play or pause (space)" onClick={toggle}>
            <Icon isFilled d={isPlaying ? PAUSE : PLAY} />
          </button>
          <span className="time">
            <output>{clock(now)}</output> / {clock(all)}
          </span>
          <time className="clock" title="Time of day on the screen" dateTime={new Date(replay.started + now * 1000).toISOString()}>
            {timeOfDay(now)}
          </time>
          <Extras setSpeed={(speed) => (video.current!.playbackRate = speed)} isListed={isListed} toggleList={() => list(!isListed)} />
          <button type="button" aria-label="Full screen" title="Full screen (f)" onClick={fullScreen}>
            <Icon d="M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5" />
          </button>
        </div>
      </div>
      {isListed && (
        <section className="side" id="events" aria-label="Events">
          <EventList
            events={events}
            when={(line) => `${clock(Math.max(0, secondsOf(line)))}.${Math.floor(Math.max(0, secondsOf(line)) * 10 + 0.001) % 10}`}
            details={({ seq }) => get<EventDetails>(`events/${seq}`)}
            jump={(line) => jump(secondsOf(line))}
          />
        </section>
      )}
    </>
  )
}

createRoot(main).render(<Player />)
if (replay.hasEvents) void load(0)
