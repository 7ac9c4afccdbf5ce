// Running and ended sessions.
import { useMay } from '../../api/sign-in.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, duration, Named, State, Tags } from '../../ui/show.tsx'
import { NewSession } from './new-session.tsx'
import { End } from './end.tsx'
import { isRunning, lifetime, type Session } from './model.ts'

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
  { title: 'Session', cell: ({ session_id: id, name }) => <Named id={id} name={name} to={`/sessions/${id}`} /> },
  { title: 'State', cell: (session) => <State kind={isRunning(session) ? 'good' : 'off'}>{isRunning(session) ? 'Running' : 'Ended'}</State> },
  { title: 'Kind', isMinor: true, cell: looksOf },
  { title: 'Tags', isMinor: true, cell: ({ tags }) => <Tags tags={tags} /> },
  { title: 'Created', cell: ({ created_at: at }) => <Ago at={at} /> },
  { title: 'Lasts', isMinor: true, isNumber: true, cell: (session) => duration(lifetime(session)) },
  { title: 'Ends after', isMinor: true, isNumber: true, cell: ({ timeout_seconds: seconds }) => `${duration(seconds * 1000)} idle` },
  { title: 'Actions', cell: (session) => isRunning(session) && <End session={session} look="quiet" /> },
]

function looksOf({ headless, stealth, viewport, profile, pool }: Session): string {
  const screen = viewport ? `${viewport.width}×${viewport.height}` : ''
  return [headless ? 'headless' : screen, stealth ? 'stealth' : '', profile?.name ? `profile ${profile.name}` : '', pool?.name ? `pool ${pool.name}` : '']
    .filter(Boolean)
    .join(' · ')
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
