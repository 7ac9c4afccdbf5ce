// Invocations: runs of actions, newest first.
import { Link } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, duration, Two } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'

type Invocation = ItemOf<'listInvocations'>

const REFRESH_MS = 3_000

const FILTERS: Filter[] = [
  {
    kind: 'choice',
    name: 'status',
    label: 'State',
    options: [
      ['', 'Any state'],
      ['queued', 'Queued'],
      ['running', 'Running'],
      ['succeeded', 'Succeeded'],
      ['failed', 'Failed'],
    ],
  },
  {
    kind: 'choice',
    name: 'since',
    label: 'Started',
    options: [
      ['', 'At any time'],
      ['1h', 'In the last hour'],
      ['24h', 'In the last day'],
      ['168h', 'In the last week'],
    ],
  },
  { kind: 'search', name: 'query', label: 'Search by app, action or id' },
]

/** The duration of a run, or undefined while it runs. */
export function took({ started_at: from, finished_at: to }: Pick<Invocation, 'started_at' | 'finished_at'>): string | undefined {
  if (to === null) return undefined
  const ms = Date.parse(to) - Date.parse(from)
  return ms < 10_000 ? `${ms} ms` : duration(ms)
}

const COLUMNS: Column<Invocation>[] = [
  {
    title: 'Invocation',
    cell: ({ id, app_name: app, action_name: action, version }) => (
      <Two below={`version ${version}`}>
        <Link to={`/invocations/${id}`}>{`${app} · ${action}`}</Link>
      </Two>
    ),
  },
  { title: 'State', cell: ({ status }) => <StateOf state={status} /> },
  { title: 'Started', cell: ({ started_at: at }) => <Ago at={at} /> },
  {
    title: 'Took',
    isMinor: true,
    isNumber: true,
    cell: took,
  },
]

export default function Invocations() {
  return (
    <>
      <Head title="Invocations" text="Runs of actions of apps." />
      <List
        id="listInvocations"
        label="Invocations"
        filters={FILTERS}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No invocations"
            text="Invoke an action on the page of apps, or from a program:"
            examples={examples(
              `const invocation = await kernel.invocations.create({ app_name: 'page-title', action_name: 'get-title', version: 'latest', payload: JSON.stringify({ url: 'https://example.com' }) })\nconsole.log(invocation.output)`,
              `import json\n\ninvocation = kernel.invocations.create(app_name="page-title", action_name="get-title", version="latest", payload=json.dumps({"url": "https://example.com"}))\nprint(invocation.output)`,
              `-H "Content-Type: application/json" -d '{"app_name": "page-title", "action_name": "get-title", "version": "latest", "payload": "{\\"url\\": \\"https://example.com\\"}"}' $URL/invocations`,
            )}
          />
        }
      />
    </>
  )
}
