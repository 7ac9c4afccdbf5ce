// The audit log: who called what. Its pages follow each other by tokens, from the newest entry back.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { useSearchParams } from 'react-router'
import { bytes } from '../../api/client.ts'
import type { ItemOf } from '../../api/contracts.ts'
import { useProject } from '../../api/project.ts'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { FilterBar, Loading, Table, useFilters, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Mono, Two } from '../../ui/show.tsx'
import { Download } from './audit-download.tsx'
import { DAYS, rangeOf } from './audit-window.ts'

type Entry = ItemOf<'listAuditLogs'>

const PAGE_ENTRIES = 50

const FILTERS: Filter[] = [
  {
    kind: 'choice',
    name: 'window',
    label: 'Time',
    options: [
      ['day', 'The last day'],
      ['hour', 'The last hour'],
      ['week', 'The last week'],
      ['month', 'The last 30 days'],
      [DAYS, 'Chosen days'],
    ],
  },
  {
    kind: 'choice',
    name: 'method',
    label: 'Method',
    options: [['', 'All methods'], ...['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((name) => [name, name] as const)],
  },
  {
    kind: 'choice',
    name: 'auth_strategy',
    label: 'By',
    options: [
      ['', 'By anybody'],
      ['api_key', 'API keys'],
      ['dashboard', 'Sign-ins to the dashboard'],
      ['oauth', 'Allowed programs'],
      ['app', 'Code of apps'],
      ['session', 'Tokens of sessions'],
      ['link', 'Links'],
      ['login', 'Tokens of logins'],
    ],
  },
  { kind: 'search', name: 'service', label: 'Group, such as browsers' },
  { kind: 'search', name: 'search', label: 'Path, id, address or status' },
]

/** These fields appear when the person chooses days. */
const DATES: Filter[] = [
  { kind: 'date', name: 'from', label: 'From' },
  { kind: 'date', name: 'to', label: 'to' },
]

/** The address of a key is a placeholder, so show its id. */
const whoOf = ({ user_id: id, email }: Entry): ReactNode => (email && !email.endsWith('@key.cob.internal') ? email : <Mono>{id}</Mono>)

const COLUMNS: Column<Entry>[] = [
  { title: 'When', cell: ({ timestamp: at }) => <Ago at={at} /> },
  {
    title: 'Call',
    cell: (entry) => (
      <span className="main-cell">
        <Mono>{`${entry.method} ${entry.path}`}</Mono>
        <small>{entry.route}</small>
        <small className="on-phone">
          by {entry.auth_strategy} {whoOf(entry)}
        </small>
      </span>
    ),
  },
  { title: 'Status', isNumber: true, cell: ({ status }) => <span className={status >= 400 ? 'problem' : undefined}>{status}</span> },
  { title: 'Took', isMinor: true, isNumber: true, cell: ({ duration_ms: ms }) => `${ms} ms` },
  {
    title: 'By',
    isMinor: true,
    cell: (entry) => <Two below={whoOf(entry)}>{entry.auth_strategy}</Two>,
  },
  {
    title: 'From',
    isMinor: true,
    cell: ({ client_ip: ip, user_agent: agent }) => <Two below={agent.slice(0, 40)}>{ip}</Two>,
  },
]

export default function AuditLog() {
  const [search, set] = useSearchParams()
  const shown = search.get('window') === DAYS ? [FILTERS[0]!, ...DATES, ...FILTERS.slice(1)] : FILTERS
  const { query: filters } = useFilters(shown)
  const project = useProject()
  const [opened] = useState(() => Date.now())
  const token = search.get('page_token') ?? undefined
  const { window, from, to, ...others } = filters as { window: string; from?: string; to?: string }
  // All pages of a search end at the time of its first page.
  const given = Number(search.get('end'))
  const end = token !== undefined && Number.isSafeInteger(given) && given > 0 ? given : undefined
  const until = (): number => end ?? Date.now()
  const rangeTo = (last: number) => rangeOf(window, { ...(from && { from }), ...(to && { to }) }, last)
  const isRange = rangeTo(opened) !== undefined

  const { data, error, isPending, isFetching, refetch } = useQuery({
    placeholderData: keepPreviousData,
    queryKey: ['listAuditLogs', filters, token, end ?? opened, project],
    enabled: isRange,
    queryFn: async ({ signal }) => {
      const last = until()
      const response = await bytes(
        'listAuditLogs',
        { query: { ...others, ...rangeTo(last), limit: PAGE_ENTRIES, ...(token && { page_token: token }) } as never },
        { signal },
      )
      return { items: (await response.json()) as Entry[], next: response.headers.get('x-next-page-token') || undefined, last }
    },
  })
  const go = (next: string | undefined, last: number): void => {
    const to = new URLSearchParams(search)
    if (next === undefined) for (const name of ['page_token', 'end']) to.delete(name)
    else {
      to.set('page_token', next)
      to.set('end', String(last))
    }
    set(to)
    document.getElementById('content')?.scrollTo(0, 0)
  }
  return (
    <>
      <Head title="Audit log" text="Every request, who made it, and how it was answered.">
        <Button isDisabled={isFetching} onPress={() => (token === undefined ? void refetch() : go(undefined, 0))}>
          {token === undefined ? 'Refresh' : 'To the newest'}
        </Button>
        <Download query={isRange ? () => ({ ...others, ...rangeTo(until()) }) : undefined} />
      </Head>
      <section className="list" aria-label="Audit log">
        <FilterBar filters={shown} />
        {!isRange ? (
          <Empty title="These are not days of one search" text="The second day must not be before the first, and there may be 30 days at most." />
        ) : isPending ? (
          <Loading label="the audit log" />
        ) : !data ? (
          <ErrorNotice error={error} what="The audit log" retry={() => void refetch()} />
        ) : data.items.length === 0 ? (
          <Empty title="Nothing matches" text="No request of this time matches the filters.">
            <Button onPress={() => set({})}>Remove the filters</Button>
          </Empty>
        ) : (
          <Table label="Audit log" columns={COLUMNS} items={data.items} keyOf={({ event_id: id }) => id} isBusy={isFetching} />
        )}
        {isRange && data?.next !== undefined && (
          <nav className="pager" aria-label="Pages of the list">
            <Button onPress={() => go(data.next, data.last)}>Older</Button>
          </nav>
        )}
      </section>
    </>
  )
}
