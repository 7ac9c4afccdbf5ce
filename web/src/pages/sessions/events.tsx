// The events of a session, newest first: the stored ones, and, while it runs, new ones as they happen.
import { useEffect, useState } from 'react'
import { ApiError, page, stream } from '../../api/client.ts'
import { useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { adviceOn } from '../../ui/advice.ts'
import { Button } from '../../ui/button.tsx'
import { Select } from '../../ui/field.tsx'
import { timeOfDay } from '../../ui/show.tsx'
import { printable } from '../../ui/text.ts'
import { failed } from '../../ui/toasts.tsx'
import { visible, whileVisible } from '../../ui/visible.ts'
import { MAX_EVENTS, withNew } from './event-list.ts'
import { lineOf, titleOf, toneOf, type Event } from './event-text.ts'
import { isRunning } from './model.ts'
import type { TabProps } from './session.tsx'

const CATEGORIES = ['control', 'connection', 'system', 'captcha', 'platform', 'console', 'network', 'page', 'interaction', 'screenshot', 'monitor'] as const
type Category = (typeof CATEGORIES)[number] | ''

const PAGE_EVENTS = 100
const SHOW_MS = 250
/** The number of characters of an event's data that are shown. */
const MAX_DATA = 64 * 1024
const AGAIN_MS = 3_000

/** Capturing these slows the page, so they are off by default. */
const MORE = { console: { enabled: true }, network: { enabled: true }, page: { enabled: true }, interaction: { enabled: true } }

export default function Events({ session }: TabProps) {
  const [category, choose] = useState<Category>('')
  const mayChange = useMay('updateBrowser') && isRunning(session)
  const { events, older, problem, isLoading, loadOlder, isLive } = useEvents(session.session_id, category, isRunning(session) && session.telemetry !== null)
  const change = useChange('updateBrowser', ['getBrowser'])
  const turn = (browser: typeof MORE | undefined): void =>
    change.mutate(
      { params: { id_or_name: session.session_id }, body: { telemetry: browser ? { browser } : { enabled: true } } },
      { onError: failed('Telemetry was not changed') },
    )
  const captured = Object.entries(session.telemetry?.browser ?? {}).flatMap(([name, { enabled }]) => (enabled ? [name] : []))
  return (
    <>
      <div className="toolbar">
        <Select
          label="Category"
          isLabelHidden
          value={category}
          options={[['', 'All categories'], ...CATEGORIES.map((each) => [each, each] as const)]}
          onChange={(next) => choose(next)}
        />
        {mayChange &&
          (session.telemetry === null ? (
            <Button isDisabled={change.isPending} onPress={() => turn(undefined)}>
              Turn telemetry on
            </Button>
          ) : (
            !captured.includes('page') && (
              <Button isDisabled={change.isPending} onPress={() => turn(MORE)}>
                Also capture pages, network and console
              </Button>
            )
          ))}
        <span className="muted" role="status">
          {problem ?? (isLive ? 'New events appear as they happen.' : '')}
        </span>
      </div>
      {events.length > 0 ? (
        <ol className="timeline" aria-label="Events, newest first">
          {events.map((event) => (
            <Line key={event.seq} event={event} />
          ))}
        </ol>
      ) : (
        !isLoading && (
          <div className="empty">
            <h2>No events</h2>
            <p>
              {session.telemetry === null
                ? isRunning(session)
                  ? 'This session captures nothing: telemetry is off. Turn it on, or create sessions with telemetry: { enabled: true }.'
                  : 'Telemetry was off, or what it has kept has been deleted.'
                : `Nothing of this kind has happened yet. It captures: ${captured.join(', ')}.`}
            </p>
          </div>
        )
      )}
      {older !== undefined && (
        <div className="pager">
          <Button isDisabled={isLoading} onPress={loadOlder}>
            {isLoading ? 'Loading…' : 'Older events'}
          </Button>
        </div>
      )}
    </>
  )
}

function Line({ event }: { event: Event }) {
  const date = new Date(event.event.ts / 1000)
  // An event may have a megabyte, and the list thousands of events, so the data become elements only when a person opens them.
  const [isOpen, open] = useState(false)
  return (
    <li className={toneOf(event)}>
      <details onToggle={({ currentTarget }) => open(currentTarget.open)}>
        <summary>
          <time dateTime={date.toISOString()}>{timeOfDay(date)}</time>
          <span className="kind">{titleOf(event)}</span>
          <span className="said">{lineOf(event)}</span>
        </summary>
        {isOpen && (
          <pre tabIndex={0} aria-label={`Data of ${titleOf(event)}`}>
            {printable(JSON.stringify(event.event.data ?? {}, undefined, 2).slice(0, MAX_DATA))}
          </pre>
        )}
      </details>
    </li>
  )
}

interface Found {
  events: Event[]
  older: number | undefined
  problem?: string | undefined
  isLoading: boolean
  isLive: boolean
}

const NOTHING: Found = { events: [], older: undefined, isLoading: true, isLive: false }

/** The newest stored events, then the stream that continues from them. The stream pauses while the tab is hidden, and continues where it stopped. */
function useEvents(id: string, category: Category, isLive: boolean): Found & { loadOlder: () => void } {
  const [found, set] = useState(NOTHING)
  useEffect(() => {
    set(NOTHING)
    const ended = new AbortController()
    const { signal } = ended
    let waiting: Event[] = []
    let last = 0
    const timer = setInterval(() => {
      if (waiting.length === 0) return
      const more = waiting.reverse()
      waiting = []
      set((now) => ({ ...now, ...withNew(now, more) }))
    }, SHOW_MS)
    const work = async (): Promise<void> => {
      const kept = await keptEvents(id, category, 0, signal)
      last = kept.items[0]?.seq ?? 0
      set({ events: kept.items, older: kept.nextOffset, isLoading: false, isLive })
      while (isLive) {
        await visible(signal)
        try {
          set((now) => ({ ...now, problem: undefined, isLive }))
          await whileVisible(signal, follow)
        } catch (error) {
          // A 4xx means that the session has ended or no longer belongs to this caller. Other errors may pass, for example during a restart of the service.
          if (signal.aborted || (error instanceof ApiError && error.status >= 400 && error.status < 500)) throw error
          set((now) => ({ ...now, problem: adviceOn(error, 'again'), isLive: false }))
        }
        await pause(AGAIN_MS, signal)
      }
    }
    const follow = async (both: AbortSignal): Promise<void> => {
      // Without this number the stream would start with the next event, and events since the newest stored one would be missing.
      const headers = { 'last-event-id': String(last) }
      for await (const { event } of stream('streamTelemetry', { params: { id }, query: {} }, { signal: both, headers })) {
        last = Math.max(last, event.seq)
        if (category === '' || event.event.category === category) waiting.push(event)
        if (waiting.length > MAX_EVENTS) waiting.shift()
      }
    }
    work().catch((error: unknown) => {
      if (!signal.aborted) set((now) => ({ ...now, isLoading: false, isLive: false, problem: adviceOn(error) }))
    })
    return () => {
      ended.abort()
      clearInterval(timer)
    }
  }, [id, category, isLive])

  const loadOlder = (): void => {
    if (found.older === undefined) return
    set((now) => ({ ...now, isLoading: true }))
    keptEvents(id, category, found.older, undefined).then(
      ({ items, nextOffset }) =>
        set((now) => {
          const seen = new Set(now.events.map(({ seq }) => seq))
          return { ...now, events: [...now.events, ...items.filter(({ seq }) => !seen.has(seq))], older: nextOffset, isLoading: false }
        }),
      (error: unknown) => set((now) => ({ ...now, isLoading: false, problem: adviceOn(error) })),
    )
  }
  return { ...found, loadOlder }
}

async function keptEvents(id: string, category: Category, offset: number, signal: AbortSignal | undefined) {
  try {
    return await page(
      'listTelemetryEvents',
      { params: { id }, query: { order: 'desc', limit: PAGE_EVENTS, offset, ...(category && { category }) } },
      { signal },
    )
  } catch (error) {
    // The service stores nothing of a session without telemetry.
    if (error instanceof ApiError && error.status === 404) return { items: [], nextOffset: undefined }
    throw error
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    setTimeout(resolve, ms)
  })
