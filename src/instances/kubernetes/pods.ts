// Watches the pods of a scope: the state of each, and notifications of changes.
import { makeInformer, type V1Pod } from '@kubernetes/client-node'
import { Notifier } from '../../base/notifier.ts'
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import { LABELS } from '../containers/labels.ts'
import { failed, readPod, type Cluster } from './api.ts'
import { standingOf, type Standing } from './pod.ts'

/** Wait before the watch is restarted after an error, and interval of queries for changes that the watch has not reported. */
const AGAIN_MS = 1_000
/** Most deleted pods whose reasons of ending are kept. */
const MAX_GONE = 1_000

const GONE: Standing = { state: 'ended', why: 'its pod is gone: somebody has deleted it, or its node is gone' }

export interface Pods extends AsyncDisposable {
  /** Forgets how an earlier pod of this name has ended, because a new one was made. */
  forget(name: string): void
  /** The state of a pod, as the watch has last reported it; without a report, the cluster is asked. @throws when the cluster does not answer */
  look(name: string): Promise<Standing>
  /** Resolves with the first result of `found` that is not undefined, for the pod and its state. | @throws errors of `found`; the signal's reason */
  when<T>(name: string, found: (standing: Standing, pod: V1Pod | undefined) => T | undefined, signal: AbortSignal): Promise<T>
}

export function watchPods(cluster: Cluster, scope: string, log: Log): Pods {
  const { config, core, namespace } = cluster
  const labelSelector = `${LABELS.scope}=${scope}`
  const changed = new Notifier()
  const stop = new AbortController()
  const gone = new Map<string, Standing>()
  const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/pods`, () => core.listNamespacedPod({ namespace, labelSelector }), labelSelector)

  informer.on('change', (pod) => {
    const name = pod.metadata!.name!
    // The reason of a pod's deletion is in its last state.
    const standing = standingOf(pod)
    if (standing.state === 'ended') remember(name, standing)
    changed.notify()
  })
  informer.on('delete', (pod) => {
    const name = pod.metadata!.name!
    if (!gone.has(name)) remember(name, GONE)
    changed.notify()
  })
  informer.on('error', (err: unknown) => {
    if (stop.signal.aborted) return
    log.warn({ err: failed('watching pods', err) }, 'the watch of pods broke off; it is begun again')
    void sleep(AGAIN_MS, stop.signal).then(begin, () => {})
  })
  const begin = (): void => void informer.start().catch((err: unknown) => log.error({ err }, 'the watch of pods could not be begun'))
  begin()

  function remember(name: string, standing: Standing): void {
    gone.delete(name)
    gone.set(name, standing)
    if (gone.size > MAX_GONE) gone.delete(gone.keys().next().value!)
  }

  const standing = (name: string): Standing | undefined => {
    const pod = informer.get(name, namespace)
    return pod ? standingOf(pod) : gone.get(name)
  }

  return {
    forget: (name) => void gone.delete(name),
    async look(name) {
      const known = standing(name)
      if (known) return known
      const pod = await readPod(cluster, name)
      return pod ? standingOf(pod) : GONE
    },
    async when(name, found, signal) {
      for (;;) {
        signal.throwIfAborted()
        const pod = informer.get(name, namespace)
        const result = found(pod ? standingOf(pod) : (gone.get(name) ?? { state: 'waiting' }), pod)
        if (result !== undefined) return result
        // No await between the check and this line: a notification would be missed.
        await changed.next(signal)
      }
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await informer.stop()
    },
  }
}
