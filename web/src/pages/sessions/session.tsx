// One session: its header and its tabs.
import { lazy, Suspense, type ComponentType } from 'react'
import { Link, NavLink, useNavigate, useParams } from 'react-router'
import { ApiError } from '../../api/client.ts'
import type { CallId } from '../../api/contracts.ts'
import { useCall } from '../../api/queries.ts'
import { mayOf, useMe } from '../../api/sign-in.ts'
import { useProject } from '../../api/project.ts'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading } from '../../ui/list.tsx'
import { Head, usePageTitle } from '../../ui/page.tsx'
import { Ago, State, Tags } from '../../ui/show.tsx'
import { End } from './end.tsx'
import { isRunning, nameOf, type Session } from './model.ts'
import './session.css'

const REFRESH_MS = 5_000

export interface TabProps {
  session: Session
}

interface TabEntry {
  id: string
  title: string
  Content: ComponentType<TabProps>
  /** The tab works on the running browser, so it shows nothing for an ended session. */
  needsRunning?: boolean
  /** The tab is useless without the right to make this call. */
  needs: CallId
}

/** The first tab is the default. Each tab is a separate chunk. */
const TABS: TabEntry[] = [
  { id: 'live', title: 'Live view', Content: lazy(() => import('./live.tsx')), needs: 'getBrowser', needsRunning: true },
  { id: 'events', title: 'Events', Content: lazy(() => import('./events.tsx')), needs: 'listTelemetryEvents' },
  { id: 'files', title: 'Files', Content: lazy(() => import('./files.tsx')), needs: 'listFiles', needsRunning: true },
  { id: 'terminal', title: 'Terminal', Content: lazy(() => import('./terminal.tsx')), needs: 'spawnProcess', needsRunning: true },
  { id: 'logs', title: 'Logs', Content: lazy(() => import('./logs.tsx')), needs: 'streamLogs', needsRunning: true },
  { id: 'replays', title: 'Replays', Content: lazy(() => import('./replays.tsx')), needs: 'listReplays' },
  { id: 'details', title: 'Details', Content: lazy(() => import('./details.tsx')), needs: 'getBrowser' },
]

export default function SessionPage() {
  const { id = '', tab } = useParams()
  const { data, error, isPending, refetch } = useCall('getBrowser', { params: { id_or_name: id }, query: { include_deleted: 'true' } }, { everyMs: REFRESH_MS })
  usePageTitle(data && nameOf(data))
  const may = mayOf(useMe().data, useProject())
  const navigate = useNavigate()
  const back = <Link to="/sessions">Sessions</Link>
  // A failed refetch must not close an open tab, for example a terminal. A deleted session must.
  const isGone = error instanceof ApiError && error.status === 404
  if (!data || isGone)
    return (
      <>
        <Head title="Session" back={back} />
        {isPending ? <Loading label="the session" /> : <ErrorNotice error={error} what="This session" retry={() => void refetch()} isPolled />}
      </>
    )
  const session = data
  const tabs = TABS.filter(({ needsRunning, needs }) => (isRunning(session) || !needsRunning) && may(needs))
  const chosen = TABS.find((each) => each.id === tab && may(each.needs)) ?? tabs[0]!
  const { Content } = chosen
  return (
    <div className="session">
      <Head title={nameOf(session)} back={back} text={<Summary session={session} />}>
        {isRunning(session) && <End session={session} look="danger" onDone={() => void navigate(`/sessions/${session.session_id}`)} />}
      </Head>
      <nav className="tabs" aria-label="Of this session">
        {tabs.map(({ id: each, title }) => (
          <NavLink
            key={each}
            className={each === chosen.id ? 'tab active' : 'tab'}
            aria-current={each === chosen.id ? 'page' : undefined}
            to={`/sessions/${id}/${each}`}
          >
            {title}
          </NavLink>
        ))}
      </nav>
      <div className="tab-content">
        {chosen.needsRunning && !isRunning(session) ? (
          <div className="empty">
            <h2>This session has ended</h2>
            <p>Its browser is gone. What is kept of it: its events, if telemetry was on, and its replays.</p>
          </div>
        ) : (
          <Suspense fallback={<Loading label={chosen.title} />}>
            <Content key={session.session_id} session={session} />
          </Suspense>
        )}
      </div>
    </div>
  )
}

const Summary = ({ session }: TabProps) => (
  <span className="summary">
    <State kind={isRunning(session) ? 'good' : 'off'}>{isRunning(session) ? 'Running' : 'Ended'}</State>
    <span>
      created <Ago at={session.created_at} />
    </span>
    {session.deleted_at && (
      <span>
        ended <Ago at={session.deleted_at} />
      </span>
    )}
    <Tags tags={session.tags} />
  </span>
)
