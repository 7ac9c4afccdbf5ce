// Pictures of all running sessions. A picture is fetched only while its tile is visible, and none while the tab is hidden.
import { useEffect, useRef, useState } from 'react'
import { Link } from 'react-router'
import { ApiError, bytes } from '../../api/client.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago } from '../../ui/show.tsx'
import { usePage } from '../../api/queries.ts'
import { DEFAULT_SCREEN, nameOf, type Session } from './model.ts'
import './session.css'

const REFRESH_MS = 5_000
/** The service makes a new picture at most once in this time. */
const PICTURE_MS = 1_000
/** The pause after a failure, because the session may be ending or asleep. */
const AGAIN_MS = 5_000
const MAX_TILES = 100

export default function Wall() {
  const { data, error, isPending, refetch } = usePage('listBrowsers', { query: { status: 'active', limit: MAX_TILES } }, { everyMs: REFRESH_MS })
  return (
    <>
      <Head title="Wall" text="The screens of all running sessions, once a second." />
      {isPending ? (
        <Loading label="the sessions" />
      ) : !data ? (
        <ErrorNotice error={error} what="The list of sessions" retry={() => void refetch()} isPolled />
      ) : data.items.length === 0 ? (
        <Empty
          title="No browser runs"
          text="Each running session has a tile here. Start one:"
          examples={examples(`await kernel.browsers.create()`, `kernel.browsers.create()`, `-X POST $URL/browsers`)}
        />
      ) : (
        <>
          <ul className="wall">
            {data.items.map((session) => (
              <li key={session.session_id}>
                <Tile session={session} />
              </li>
            ))}
          </ul>
          {data.nextOffset !== undefined && <p className="muted">The newest {MAX_TILES} are shown. The list of sessions has all.</p>}
        </>
      )}
    </>
  )
}

function Tile({ session }: { session: Session }) {
  const box = useRef<HTMLAnchorElement>(null)
  const { url, problem } = usePicture(session.session_id, box)
  const { width, height } = session.viewport ?? DEFAULT_SCREEN
  return (
    <Link ref={box} className="tile" to={`/sessions/${session.session_id}`}>
      <span className="picture" style={{ aspectRatio: `${width} / ${height}` }}>
        {url === undefined ? <span className="muted">{problem ?? 'Waiting for a picture…'}</span> : <img src={url} alt="" />}
      </span>
      <span className="caption">
        <span className="name">{nameOf(session)}</span>
        <Ago at={session.created_at} />
      </span>
    </Link>
  )
}

/** The newest picture of a session, as an object URL. */
function usePicture(id: string, box: React.RefObject<HTMLElement | null>): { url: string | undefined; problem: string | undefined } {
  const [shown, show] = useState<{ url: string | undefined; problem: string | undefined }>({ url: undefined, problem: undefined })
  useEffect(() => {
    const ended = new AbortController()
    const { signal } = ended
    let isSeen = false
    let isBusy = false
    let timer: ReturnType<typeof setTimeout> | undefined
    let url: string | undefined
    let etag: string | undefined

    const next = (ms: number): void => {
      clearTimeout(timer)
      if (isSeen && !document.hidden && !signal.aborted) timer = setTimeout(() => void fetchOne(), ms)
    }
    const fetchOne = async (): Promise<void> => {
      if (isBusy) return
      isBusy = true
      let wait = PICTURE_MS
      try {
        const found = await thumbnail(id, etag, signal)
        if (found) {
          const before = url
          url = URL.createObjectURL(found.picture)
          etag = found.etag
          show({ url, problem: undefined })
          if (before !== undefined) URL.revokeObjectURL(before)
        } else if (url === undefined) show({ url: undefined, problem: 'Asleep' })
      } catch (error) {
        if (signal.aborted) return
        wait = AGAIN_MS
        if (url === undefined) show({ url: undefined, problem: error instanceof ApiError && error.status === 404 ? 'No picture' : 'The picture does not come' })
      } finally {
        isBusy = false
        next(wait)
      }
    }
    const observer = new IntersectionObserver(([entry]) => {
      isSeen = entry!.isIntersecting
      next(0)
    })
    observer.observe(box.current!)
    document.addEventListener('visibilitychange', () => next(0), { signal })
    return () => {
      ended.abort()
      observer.disconnect()
      clearTimeout(timer)
      if (url !== undefined) URL.revokeObjectURL(url)
    }
  }, [id, box])
  return shown
}

/** Undefined when the picture still has the `etag`, or when there is none because the session sleeps. @throws ApiError */
async function thumbnail(id: string, etag: string | undefined, signal: AbortSignal): Promise<{ picture: Blob; etag: string | undefined } | undefined> {
  const headers: Record<string, string> = etag === undefined ? {} : { 'if-none-match': etag }
  const response = await bytes('getBrowserThumbnail', { params: { id_or_name: id } }, { signal, headers })
  if (response.status === 204 || response.status === 304) return undefined
  const picture = new Blob([await response.arrayBuffer()], { type: 'image/png' })
  return { picture, etag: response.headers.get('etag') ?? undefined }
}
