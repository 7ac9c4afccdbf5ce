// One invocation: payload, output, log lines, and its browsers.
import { useMemo } from 'react'
import { Link, useParams } from 'react-router'
import type { AnswerOf, EventOf } from '../../api/contracts.ts'
import { useFollow } from '../../ui/follow.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { Code } from '../../ui/code.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading, Pages } from '../../ui/list.tsx'
import { LogLines, type LogLine } from '../../ui/log.tsx'
import { Ago, Facts, Mono } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { Thing } from '../../ui/thing.tsx'
import { done } from '../../ui/toasts.tsx'
import { took } from './invocations.tsx'
import '../../ui/form.css'

type Invocation = AnswerOf<'getInvocation'>
type Event = EventOf<'followInvocation'>

const REFRESH_MS = 2_000
/** The number of characters of a payload or an output that the page shows. */
const MAX_SHOWN = 256 * 1024

const isOver = ({ status }: Invocation): boolean => status === 'succeeded' || status === 'failed'

export default function InvocationPage() {
  const { id = '' } = useParams()
  const may = useRights()
  return (
    <Thing
      query={useCall('getInvocation', { params: { id } }, { everyMs: REFRESH_MS })}
      what="This invocation"
      back={<Link to="/invocations">Invocations</Link>}
      titleOf={({ app_name: app, action_name: action }) => `${app} · ${action}`}
      text={({ status, started_at: at }) => (
        <span className="summary">
          <StateOf state={status} />
          <span>
            started <Ago at={at} />
          </span>
        </span>
      )}
      buttons={(invocation) => may.use && !isOver(invocation) && <Stop id={invocation.id} />}
    >
      {(invocation) => (
        <>
          {invocation.status_reason && (
            <div className="notice">
              <h2>Why</h2>
              <pre tabIndex={0}>{invocation.status_reason}</pre>
            </div>
          )}
          <section className="panel" aria-label="Invocation">
            <Facts
              facts={[
                ['Id', <Mono key="id">{invocation.id}</Mono>],
                ['App', <Link key="app" to={`/apps?query=${encodeURIComponent(invocation.app_name)}`}>{`${invocation.app_name} ${invocation.version}`}</Link>],
                ['Took', took(invocation)],
                ['Finished', invocation.finished_at && <Ago key="finished" at={invocation.finished_at} />],
              ]}
            />
          </section>
          <Json title="Payload" text={invocation.payload} />
          <Json title="Output" text={invocation.output} />
          {!isOver(invocation) && <Browsers id={invocation.id} />}
          <Output id={invocation.id} />
        </>
      )}
    </Thing>
  )
}

function Json({ title, text }: { title: string; text: string | undefined }) {
  const shown = useMemo(() => printed(text ?? ''), [text])
  if (text === undefined) return null
  return (
    <section className="section">
      <h2>{title}</h2>
      <Code text={shown} label={title} />
    </section>
  )
}

function printed(text: string): string {
  if (text.length > MAX_SHOWN) return `${text.slice(0, MAX_SHOWN)}…`
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2)
  } catch {
    return text // If it is not JSON, it is shown unchanged.
  }
}

function Stop({ id }: { id: string }) {
  const stop = useChange('updateInvocation', ['getInvocation', 'listInvocations'])
  return (
    <Confirm
      title="Stop this run?"
      text={<p>It ends as failed, and its browsers are deleted.</p>}
      action="Stop"
      trigger={<Button look="danger">Stop</Button>}
      onConfirm={async () => {
        await stop.mutateAsync({ params: { id }, body: { status: 'failed' } })
        done('The run has been stopped')
      }}
    />
  )
}

function Browsers({ id }: { id: string }) {
  const { data, error, isPending } = useCall('listInvocationBrowsers', { params: { id } }, { everyMs: REFRESH_MS })
  return (
    <section className="section" aria-label="Browsers">
      <h2>Browsers</h2>
      {isPending ? (
        <Loading label="the browsers" />
      ) : !data ? (
        <ErrorNotice error={error} what="The list of browsers" isPolled />
      ) : data.browsers.length === 0 ? (
        <p className="muted">It has none now.</p>
      ) : (
        <Pages
          label="Browsers"
          items={data.browsers}
          keyOf={({ session_id: session }) => session}
          columns={[
            { title: 'Session', cell: ({ session_id: session, name }) => <Link to={`/sessions/${session}`}>{name ?? session}</Link> },
            { title: 'Created', cell: ({ created_at: at }) => <Ago at={at} /> },
          ]}
        />
      )}
    </section>
  )
}

const isKept = ({ event }: Event): boolean => event === 'log' || event === 'error'

function Output({ id }: { id: string }) {
  const { events, missed, problem, isOpen } = useFollow('followInvocation', { params: { id }, query: {} }, isKept)
  const lines = useMemo(() => events.flatMap(lineOf), [events])
  return (
    <section className="section" aria-label="Log">
      <h2>Log</h2>
      <p className="muted" role="status">
        {problem ?? (isOpen ? 'New lines appear as they come.' : 'The run has ended.')}
      </p>
      {missed > 0 && <p className="muted">{missed} older lines are not shown.</p>}
      <LogLines lines={lines} isShort empty={isOpen ? 'Nothing yet.' : 'It has printed nothing, or its lines are not kept any more.'} />
    </section>
  )
}

function lineOf(event: Event): LogLine[] {
  if (event.event === 'log') return [event]
  if (event.event === 'error') return [{ timestamp: event.timestamp, message: event.error.message, isProblem: true }]
  return []
}
