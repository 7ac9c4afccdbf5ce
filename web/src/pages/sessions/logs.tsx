// The output of a session's programs, or any log file in it, as it grows.
import { useEffect, useState } from 'react'
import { ApiError, stream } from '../../api/client.ts'
import type { EventOf } from '../../api/contracts.ts'
import { adviceOn } from '../../ui/advice.ts'
import { Button } from '../../ui/button.tsx'
import { Field, Select } from '../../ui/field.tsx'
import { LogLines } from '../../ui/log.tsx'
import { visible, whileVisible } from '../../ui/visible.ts'
import type { TabProps } from './session.tsx'

type Line = EventOf<'streamLogs'>
type Source = 'chromium' | 'agent' | 'display' | 'file'

const SOURCES: [Source, string][] = [
  ['chromium', 'Browser'],
  ['agent', 'Agent'],
  ['display', 'Display'],
  ['file', 'A file'],
]
/** The newest lines are kept: a log may have any length, but the page's memory is limited. */
const MAX_LINES = 5_000
/** Lines are shown in groups, because a program may print thousands per second. */
const SHOW_MS = 150
const AGAIN_MS = 2_000

export default function Logs({ session }: TabProps) {
  const [source, choose] = useState<Source>('chromium')
  const [typed, type] = useState('/var/log/')
  const [path, setPath] = useState<string>()
  const query =
    source === 'file' ? (path === undefined ? undefined : ({ source: 'path', path } as const)) : ({ source: 'supervisor', supervisor_process: source } as const)
  const { lines, missed, problem, isFollowing } = useLog(session.session_id, query)
  return (
    <>
      <div className="toolbar">
        <Select label="Log" value={source} options={SOURCES} onChange={choose} isLabelHidden />
        {source === 'file' && (
          <form
            className="inline-form"
            onSubmit={(event) => {
              event.preventDefault()
              setPath(typed)
            }}
          >
            <Field label="Path" aria-label="Path of the file" value={typed} onChange={type} />
            <Button type="submit">Open</Button>
          </form>
        )}
        <span className="muted" role="status">
          {problem ?? (isFollowing ? 'New lines appear as they come.' : query && 'Reading…')}
        </span>
      </div>
      {missed > 0 && <p className="muted">{missed} older lines are not shown.</p>}
      <LogLines lines={lines} />
    </>
  )
}

type Query = { source: 'path'; path: string } | { source: 'supervisor'; supervisor_process: 'chromium' | 'agent' | 'display' }

/** The existing lines, then new ones. The request for new lines starts first, so that none is missed; a line in both is shown once. */
function useLog(id: string, query: Query | undefined) {
  const [state, set] = useState<{ lines: Line[]; missed: number; problem?: string; isFollowing: boolean }>({ lines: [], missed: 0, isFollowing: false })
  const key = JSON.stringify(query)
  useEffect(() => {
    set({ lines: [], missed: 0, isFollowing: false })
    if (key === undefined) return
    const wanted = JSON.parse(key) as Query
    const ended = new AbortController()
    const { signal } = ended
    let waiting: Line[] = []
    const show = (): void => {
      if (waiting.length === 0) return
      const more = waiting
      waiting = []
      set(({ lines, missed, ...rest }) => {
        const all = [...lines, ...more]
        return { ...rest, lines: all.slice(-MAX_LINES), missed: missed + Math.max(0, all.length - MAX_LINES) }
      })
    }
    const timer = setInterval(show, SHOW_MS)
    const follow = async (seen: AbortSignal): Promise<void> => {
      const held: Line[] = []
      let isOld = true
      const open = new AbortController()
      const both = AbortSignal.any([seen, open.signal])
      const fresh = (async () => {
        for await (const { event } of stream('streamLogs', { params: { id }, query: { ...wanted, follow: 'true' } }, { signal: both }))
          (isOld ? held : waiting).push(event)
      })()
      // It may fail while the old lines are read.
      fresh.catch(() => {})
      try {
        const last = new Set<string>()
        for await (const { event } of stream('streamLogs', { params: { id }, query: { ...wanted, follow: 'false' } }, { signal: both })) {
          waiting.push(event)
          last.add(`${event.timestamp} ${event.message}`)
          if (last.size > MAX_LINES) last.delete(last.values().next().value!)
        }
        waiting.push(...held.filter((line) => !last.has(`${line.timestamp} ${line.message}`)))
        isOld = false
        set((now) => ({ ...now, isFollowing: true }))
        await fresh
      } finally {
        open.abort()
      }
    }
    const run = async (): Promise<void> => {
      for (let time = 0; !signal.aborted; time++) {
        // An open log counts as use of the session, so a hidden tab must not keep the session alive.
        await visible(signal)
        try {
          waiting = []
          set(({ problem: _, ...now }) => ({ ...now, ...(time > 0 && { lines: [], missed: 0 }) }))
          const isEnd = await whileVisible(signal, follow)
          set((now) => ({ ...now, isFollowing: false }))
          if (!isEnd) continue
        } catch (error) {
          const isFinal = error instanceof ApiError && error.status >= 400 && error.status < 500
          set((now) => ({ ...now, isFollowing: false, problem: adviceOn(error, 'again') }))
          if (isFinal) return
        }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
      }
    }
    // An error here means that the page was left.
    run().catch(() => {})
    return () => {
      ended.abort()
      clearInterval(timer)
    }
  }, [id, key])
  return state
}
