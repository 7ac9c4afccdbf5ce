// One session: its head, and its tabs.
import { lazy, Suspense, type ComponentType } from 'react'
import { Link, NavLink, useNavigate, useParams } from 'react-router'
import { ApiError } from '../../api/client.ts'
import type { CallId } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { mayOf, useMe } from '../../api/sign-in.ts'
import { useProject } from '../../api/project.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading } from '../../ui/list.tsx'
import { Head, usePageTitle } from '../../ui/page.tsx'
import { Ago, State, Tags } from '../../ui/show.tsx'
import { done } from '../../ui/toasts.tsx'
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
  /** It works on the browser itself, so it has nothing of a session that has ended. */
  needsRunning?: boolean
  /** The call without which it is of no use. */
  needs: CallId
}

/** The first one is shown when the address names none. Each is a chunk of its own. */
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
  const back = <Link to="/sessions">Sessions</Link>
  // A read that fails once more is no reason to take away what is open: a terminal, say. What has gone is one.
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
        {isRunning(session) && may('deleteBrowser') && <End session={session} />}
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

function End({ session }: TabProps) {
  const end = useChange('deleteBrowser', ['listBrowsers', 'getBrowser'])
  const navigate = useNavigate()
  return (
    <Confirm
      title="End this session?"
      text={<p>Its browser and its files are gone after that. Replays, and telemetry that is stored, stay.</p>}
      action="End"
      trigger={<Button look="danger">End session</Button>}
      onConfirm={async () => {
        await end.mutateAsync({ params: { id_or_name: session.session_id } })
        done('The session has ended')
        await navigate(`/sessions/${session.session_id}`)
      }}
    />
  )
}
