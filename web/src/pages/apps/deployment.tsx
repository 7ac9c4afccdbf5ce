// One deployment: its state, its apps, and the output of its build and its runs as it arrives.
import { useMemo } from 'react'
import { Link, useNavigate, useParams } from 'react-router'
import { useFollow } from '../../ui/follow.ts'
import type { EventOf } from '../../api/contracts.ts'
import { useCall } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { LogLines, type LogLine } from '../../ui/log.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Facts, Mono, Outside } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { Thing } from '../../ui/thing.tsx'
import '../../ui/form.css'

type Event = EventOf<'followDeployment'>

const REFRESH_MS = 3_000

export default function DeploymentPage() {
  const { id = '' } = useParams()
  const may = useRights()
  const navigate = useNavigate()
  return (
    <Thing
      query={useCall('getDeployment', { params: { id } }, { everyMs: REFRESH_MS })}
      what="This deployment"
      back={<Link to="/deployments">Deployments</Link>}
      titleOf={({ id: name }) => name}
      text={({ status, created_at: at }) => (
        <span className="summary">
          <StateOf state={status} />
          <span>
            created <Ago at={at} />
          </span>
        </span>
      )}
      buttons={() =>
        may.use && (
          <Remove
            call="deleteDeployment"
            input={{ params: { id } }}
            changes={['listDeployments', 'listApps']}
            what="the deployment"
            name={id}
            text="its runs stop, and its apps cannot be invoked any more."
            look="danger"
            onDone={() => void navigate('/deployments')}
          />
        )
      }
    >
      {({ status_reason: reason, status, ...deployment }) => (
        <>
          {reason && (
            <div className="notice">
              <h2>{status === 'failed' ? 'The build has failed' : 'Why'}</h2>
              <pre tabIndex={0}>{reason}</pre>
            </div>
          )}
          <section className="panel" aria-label="Deployment">
            <Facts
              facts={[
                ['Entry point', deployment.entrypoint_rel_path && <Mono key="entry">{deployment.entrypoint_rel_path}</Mono>],
                ['Source', deployment.source_url && <Outside url={deployment.source_url} />],
                ['Branch, tag or commit', deployment.source_ref],
                ['Variables', Object.keys(deployment.env_vars ?? {}).join(', ')],
                ['Changed', deployment.updated_at && <Ago key="updated" at={deployment.updated_at} />],
              ]}
            />
          </section>
          <Output id={id} />
        </>
      )}
    </Thing>
  )
}

const isKept = ({ event }: Event): boolean => event !== 'sse_heartbeat'

function Output({ id }: { id: string }) {
  const { events, missed, problem, isOpen } = useFollow('followDeployment', { params: { id }, query: {} }, isKept)
  const lines = useMemo(() => events.flatMap(lineOf), [events])
  const apps = events.filter((event) => event.event === 'app_version_summary')
  return (
    <>
      {apps.length > 0 && (
        <section className="panel" aria-label="Apps of it">
          <h2>Apps</h2>
          <ul>
            {apps.map((app) => (
              <li key={app.id}>
                <b>{app.app_name}</b> {app.version}: <Mono>{app.actions.map(({ name }) => name).join(', ')}</Mono>{' '}
                <Link to={`/apps?query=${encodeURIComponent(app.app_name)}`}>Invoke</Link>
              </li>
            ))}
          </ul>
        </section>
      )}
      <section className="section" aria-label="Output">
        <h2>Output of the build and of its runs</h2>
        <p className="muted" role="status">
          {problem ?? (isOpen ? 'New lines appear as they come.' : 'It has ended: nothing more will come.')}
        </p>
        {missed > 0 && <p className="muted">{missed} older lines are not shown.</p>}
        <LogLines lines={lines} />
      </section>
    </>
  )
}

function lineOf(event: Event): LogLine[] {
  if (event.event === 'log') return [event]
  if (event.event === 'error') return [{ timestamp: event.timestamp, message: event.error.message, isProblem: true }]
  if (event.event === 'deployment_state') return [{ timestamp: event.timestamp, message: `— ${event.deployment.status} —` }]
  return []
}
