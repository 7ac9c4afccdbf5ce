// Nodes that could not start a pod: other nodes are tried then, and these are avoided for a while.
import type { V1Affinity, V1Pod } from '@kubernetes/client-node'
import { Unavailable } from '../../base/unavailable.ts'
import { CONTAINER } from './pod.ts'

/** How long a node is avoided, and when callers may try again. A new node usually lacks something for less than this. */
const AVOID_MS = 30_000
const RETRY_SECONDS = 10
/** Most nodes that are avoided: when more fail, the pods are at fault, not the nodes. */
const MAX_AVOIDED = 16

/** The error of a node that did not start a pod. Nothing of the pod has run. */
export class NotStarted extends Error {
  readonly node: string
  constructor(node: string, why: string) {
    super(why)
    this.name = 'NotStarted'
    this.node = node
  }
}

/** No node starts pods. Callers get 503 with the reason. */
export class NodesFailed extends Unavailable {
  /** `others`: why no other node has taken the pod. */
  constructor(failures: readonly NotStarted[], others?: string) {
    const last = failures.at(-1)!
    const tried = failures.length === 1 ? 'a node' : `${failures.length} nodes`
    super(`${tried} of the cluster could not start a pod: ${last.message}${others === undefined ? '' : `; and ${others}`}`, RETRY_SECONDS, last, true)
    this.name = 'NodesFailed'
  }
}

/** The nodes that are avoided now, and why. */
export function avoidedNodes(avoidMs = AVOID_MS) {
  const failures = new Map<string, { failure: NotStarted; until: number }>()
  return {
    now(): NotStarted[] {
      for (const [node, { until }] of failures) if (performance.now() >= until) failures.delete(node)
      return [...failures.values()].map(({ failure }) => failure)
    },
    add(failure: NotStarted): void {
      failures.delete(failure.node)
      failures.set(failure.node, { failure, until: performance.now() + avoidMs })
      if (failures.size > MAX_AVOIDED) failures.delete(failures.keys().next().value!)
    },
  }
}

/** Adds to the affinity of a pod that it avoids these nodes. */
export function avoiding(affinity: V1Affinity | undefined, nodes: readonly string[]): V1Affinity | undefined {
  if (nodes.length === 0) return affinity
  const result: V1Affinity = structuredClone(affinity ?? {})
  const nodeAffinity = (result.nodeAffinity ??= {})
  const required = (nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution ??= { nodeSelectorTerms: [{}] })
  const others = nodes.map((node) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] }))
  // A node has to match one of the terms. A requirement of a field has one value.
  for (const term of required.nodeSelectorTerms) term.matchFields = [...(term.matchFields ?? []), ...others]
  return result
}

/** Whether the node never started a failed pod: it may be tried on another node. */
export function wasRefused({ metadata, spec, status }: V1Pod): boolean {
  const { state, lastState } = status?.containerStatuses?.find(({ name }) => name === CONTAINER) ?? {}
  return spec?.nodeName !== undefined && !metadata?.deletionTimestamp && !state?.terminated && !state?.running && !lastState?.terminated
}
