// The operator's patch of the pods of sessions and apps: their nodes and their priority (COB_KUBERNETES_POD_PATCH). It cannot change what keeps a pod closed.
import type { V1Pod, V1PodSpec } from '@kubernetes/client-node'
import { isDeepStrictEqual } from 'node:util'
import type { PodPatch } from '../../base/container-settings.ts'

/** The spec of a pod with a patch. Lists of tolerations are joined, selectors of nodes merged; for all other fields the patch's value replaces the spec's. */
export function patched<T extends Partial<V1PodSpec>>(spec: T, patch: PodPatch): T {
  const { tolerations = [], nodeSelector, ...more } = patch as Partial<V1PodSpec>
  // For a taint in both, the patch's toleration time applies.
  const own = (spec.tolerations ?? []).filter(({ key }) => !tolerations.some((other) => other.key === key))
  return {
    ...spec,
    ...more,
    tolerations: [...own, ...tolerations],
    ...((nodeSelector ?? spec.nodeSelector) && { nodeSelector: { ...spec.nodeSelector, ...nodeSelector } }),
  }
}

/** The path of the first field of a patch that a pod does not have: older API servers drop unknown fields silently. */
export function lost(patch: PodPatch, { spec }: V1Pod): string | undefined {
  const missing = (wanted: unknown, got: unknown, path: string): string | undefined => {
    if (Array.isArray(wanted)) {
      const list = Array.isArray(got) ? got : []
      const at = wanted.findIndex((one) => !list.some((other) => missing(one, other, '') === undefined))
      return at < 0 ? undefined : `${path}[${at}]`
    }
    if (typeof wanted !== 'object' || wanted === null) return isDeepStrictEqual(wanted, got) ? undefined : path
    for (const [key, value] of Object.entries(wanted)) {
      const found = missing(value, (got as Record<string, unknown> | undefined)?.[key], `${path}.${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  return missing(patch, spec, 'spec')
}
