// Stores a runner's events in one transaction: lines, the position after them, and the end of the run if it is among them.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { MAX_OUTPUT_BYTES, type RunnerEvent } from '../../../runner/contract.ts'
import type { Db } from '../../../store/db.ts'
import { appendEvents, logBytesOf, type NewEvent } from '../apps/app-events.ts'
import { moveInvocation } from './lifecycle.ts'
import { LogBudget } from './log-budget.ts'
import { positionOf, type Outcome } from './rows.ts'
import type { Run } from './open-run.ts'

/** The row is not as this writer left it: another caller has ended the run, another replica follows it, or a write that seemed to fail was committed. */
export class Overtaken extends Error {}

/** Condition: this replica still follows the run. A replica that was cut off does not know that another one has taken over. */
export const followedBy = (replica: string): RawBuilder<SqlBool> => sql<SqlBool>`replica = ${replica}`

/**
 * Stores a batch of storable events (runner-events.ts) for `replica`, which follows the run. Resolves with the result if the batch has the end of the run.
 * Lines are stored before the end, and none after it. If the row has moved, or has another follower, everything is rolled back. @throws Overtaken
 */
export async function writeDown(db: Db, run: Run, events: readonly RunnerEvent[], limits: LogLimits, replica: string): Promise<Outcome | undefined> {
  const now = Date.now()
  const last = events.at(-1)!
  const outcome = outcomeOf(last)
  const lines = events.filter((event) => event.type === 'log').map(({ line, at }): NewEvent => ({ kind: 'log', line, at }))
  const close = async (trx: Db): Promise<Outcome | undefined> => {
    if (!outcome) return undefined
    if (!(await moveInvocation(trx, run.id, outcome.state, outcome.reason, endColumns(outcome, last.seq), followedBy(replica)))) throw new Overtaken()
    return outcome
  }
  if (lines.length === 0) return close(db)
  const isFirst = events[0]!.seq === 1
  const budget = (run.logBudget ??= new LogBudget(limits.runBytes, isFirst ? 0 : await logBytesOf(db, run.id), now))
  const { kept, commit } = budget.take(lines, now)
  const written = await db.transaction().execute(async (trx) => {
    // Takes the log's lock, which every writer takes before it updates the row.
    if (kept.length > 0) await appendEvents(trx, run.deployment, run.id, kept, limits.deploymentBytes)
    // Update the position also before the end: another follower may have stored a part of this batch.
    const { numUpdatedRows } = await trx
      .updateTable('invocations')
      .set({ runner_seq: last.seq })
      .where('id', '=', run.id)
      .where('state', '=', 'running')
      .where(followedBy(replica))
      .where('runner_seq', '<', events[0]!.seq)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) throw new Overtaken()
    return close(trx)
  })
  commit()
  return written
}

/**
 * The same, but skips events that an earlier follower, or a write that seemed to fail, has already stored. If another replica follows the run now, calls
 * `letGo`. @throws Overtaken
 */
export async function writeRest(
  db: Db,
  run: Run,
  events: readonly RunnerEvent[],
  limits: LogLimits,
  replica: string,
  letGo: () => void,
): Promise<Outcome | undefined> {
  try {
    return await writeDown(db, run, events, limits, replica)
  } catch (error) {
    if (!(error instanceof Overtaken)) throw error
    const row = await positionOf(db, run.id)
    if (!row || row.finished_at !== null) throw error
    if (row.replica !== replica) {
      letGo()
      throw error
    }
    const rest = events.filter(({ seq }) => seq > row.runner_seq)
    if (rest.length === events.length) throw error
    return rest.length === 0 ? undefined : writeRest(db, run, rest, limits, replica, letGo)
  }
}

/** Limits on the stored output of runs, in bytes. */
export interface LogLimits {
  /** Of one run. */
  runBytes: number
  /** Of a deployment and all its runs. */
  deploymentBytes: number
}

/** The columns that the end of a run sets. */
export const endColumns = ({ output, reason }: Outcome, seq?: number): Record<string, unknown> => ({
  output,
  status_reason: reason,
  finished_at: new Date(),
  ...(seq !== undefined && { runner_seq: seq }),
})

/** A failure with a text of the service. Clients print the output of a failed run, not its reason. */
export const failure = (reason: string): Outcome => ({ state: 'failed', output: JSON.stringify({ error: reason }), reason })

function outcomeOf(event: RunnerEvent): Outcome | undefined {
  switch (event.type) {
    case 'log':
      return undefined
    case 'loaded':
      return failure('the runner built the app instead of running it')
    case 'failed':
      return failure(event.reason)
    case 'result': {
      const { ok, output, reason } = event
      if (output !== null && Buffer.byteLength(output) > MAX_OUTPUT_BYTES) return failure(`the output is larger than ${MAX_OUTPUT_BYTES} bytes`)
      return ok ? { state: 'succeeded', output, reason: null } : { state: 'failed', output, reason: reason ?? 'the action failed' }
    }
  }
}
