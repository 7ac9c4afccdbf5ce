// Sessions, now and ended.
import { Link } from 'react-router'
import { useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, duration, Mono, State, Tags } from '../../ui/show.tsx'
import { done } from '../../ui/toasts.tsx'
import { NewSession } from './new-session.tsx'
import { isRunning, lifetime, nameOf, type Session } from './model.ts'

const REFRESH_MS = 3_000

const FILTERS: Filter[] = [
  {
    kind: 'choice',
    name: 'status',
    label: 'State',
    options: [
      ['active', 'Running'],
      ['deleted', 'Ended'],
      ['all', 'All'],
    ],
  },
  { kind: 'search', name: 'query', label: 'Name, id, profile, proxy or pool' },
  { kind: 'tags', name: 'tags' },
]

const COLUMNS: Column<Session>[] = [
  {
    title: 'Session',
    cell: (session) => (
      <span className="main-cell">
        <Link to={`/sessions/${session.session_id}`}>{nameOf(session)}</Link>
        {session.name && (
          <small>
            <Mono>{session.session_id}</Mono>
          </small>
        )}
      </span>
    ),
  },
  { title: 'State', cell: (session) => <State kind={isRunning(session) ? 'good' : 'off'}>{isRunning(session) ? 'Running' : 'Ended'}</State> },
  { title: 'Kind', isMinor: true, cell: kindOf },
  { title: 'Tags', isMinor: true, cell: ({ tags }) => <Tags tags={tags} /> },
  { title: 'Created', cell: ({ created_at: at }) => <Ago at={at} /> },
  { title: 'Lasts', isMinor: true, isNumber: true, cell: (session) => duration(lifetime(session)) },
  { title: 'Ends after', isMinor: true, isNumber: true, cell: ({ timeout_seconds: seconds }) => `${duration(seconds * 1000)} idle` },
  { title: 'Actions', cell: (session) => isRunning(session) && <End session={session} /> },
]

function kindOf({ headless, stealth, viewport, profile, pool }: Session): string {
  const screen = viewport ? `${viewport.width}×${viewport.height}` : ''
  return [headless ? 'headless' : screen, stealth ? 'stealth' : '', profile?.name ? `profile ${profile.name}` : '', pool?.name ? `pool ${pool.name}` : '']
    .filter(Boolean)
    .join(' · ')
}

function End({ session }: { session: Session }) {
  const end = useChange('deleteBrowser', ['listBrowsers', 'getBrowser'])
  if (!useMay('deleteBrowser')) return null
  return (
    <Confirm
      title="End this session?"
      text={
        <p>
          The browser of <b>{nameOf(session)}</b> and its files are gone after that. Replays, and telemetry that is stored, stay.
        </p>
      }
      action="End"
      trigger={
        <Button look="quiet" aria-label={`End ${nameOf(session)}`}>
          End
        </Button>
      }
      onConfirm={async () => {
        await end.mutateAsync({ params: { id_or_name: session.session_id } })
        done('The session has ended')
      }}
    />
  )
}

export default function Sessions() {
  const mayCreate = useMay('createBrowser')
  return (
    <>
      <Head title="Sessions" text="Browsers that programs and people use now, and those that have ended.">
        {mayCreate && <NewSession />}
      </Head>
      <List
        id="listBrowsers"
        label="Sessions"
        filters={FILTERS}
        columns={COLUMNS}
        keyOf={({ session_id: id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No browser runs"
            text="A session is one Chromium with its own screen, in its own sandbox. Start one here, or from a program:"
            examples={examples(
              `const session = await kernel.browsers.create()\nconsole.log(session.session_id, session.cdp_ws_url)`,
              `session = kernel.browsers.create()\nprint(session.session_id, session.cdp_ws_url)`,
              `-X POST $URL/browsers`,
            )}
          />
        }
      />
    </>
  )
}
