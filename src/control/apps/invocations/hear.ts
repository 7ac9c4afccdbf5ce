// Reads a runner's events until the last one, or until its sandbox has ended and no more can come.
import { sleep } from '../../../base/wait.ts'
import type { AppSandbox } from '../../../instances/driver.ts'
import type { RunnerEvent } from '../../../runner/contract.ts'
import { runnerEvents } from '../apps/runner-events.ts'
import { BrokenOff } from './open-run.ts'

/** Time between the end of a sandbox and the end of its connection, in either order. */
const LAST_WORDS_MS = 2_000

/**
 * Events after `after`, in batches as they come. Fetching starts at once, before the caller reads: otherwise the events of an app that crashes would be lost
 * with it. If the sandbox ends before the last event, this fails with the reason.
 */
export function hear(instance: AppSandbox, after: number, signal: AbortSignal): AsyncGenerator<RunnerEvent[]> {
  const gone = new AbortController()
  const said = runnerEvents(instance.runner, after, AbortSignal.any([signal, gone.signal]))
  const first = said.next()
  first.catch(() => {})
  return tell(instance, said, first, gone, signal)
}

async function* tell(
  instance: AppSandbox,
  said: AsyncGenerator<RunnerEvent[]>,
  first: Promise<IteratorResult<RunnerEvent[]>>,
  gone: AbortController,
  signal: AbortSignal,
): AsyncGenerator<RunnerEvent[]> {
  let why: string | undefined
  const onExit = async ({ reason }: { reason: string }) => {
    why = reason
    await sleep(LAST_WORDS_MS, signal).catch(() => {})
    gone.abort(new Error(reason))
  }
  void instance.exited.then(onExit)
  try {
    for (let next = await first; !next.done; next = await said.next()) yield next.value
  } catch (error) {
    if (signal.aborted) throw error
    // The connection breaks a moment before the end of the sandbox is known. The end of the sandbox tells more about the cause.
    await Promise.race([instance.exited, sleep(LAST_WORDS_MS, signal)])
    throw new BrokenOff(why === undefined ? 'the connection to its sandbox broke' : `its sandbox ended: ${why}`, { cause: error })
  } finally {
    await said.return(undefined)
  }
}
