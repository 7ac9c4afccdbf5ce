// `cob seccomp` and `cob remove-pods`: the commands that the chart runs in addition to the service.
import type { Config } from '../base/config.ts'
import { ConfigError } from '../base/setting.ts'
import { seccompProfile } from '../instances/containers/seccomp.ts'
import { openCluster } from '../instances/kubernetes/api.ts'
import { keepNodeReady, removeLabel } from '../instances/kubernetes/node-ready.ts'
import { removeScope } from '../instances/kubernetes/remove.ts'
import { stopSignal } from './stop-signal.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** Prints the profile, or keeps it as a file of a node. */
export async function seccomp({ keep, node, label }: { keep?: string; node?: string; label?: string }): Promise<void> {
  const profile = `${JSON.stringify(seccompProfile())}\n`
  if (keep === undefined && node === undefined && label === undefined) return void process.stdout.write(profile)
  if (keep === undefined || (node === undefined) !== (label === undefined)) throw new Error('--node and --label belong together, and need --keep')
  const labelled = node === undefined ? undefined : { core: openCluster(undefined).core, name: node, label: label! }
  await keepNodeReady({ node: labelled, file: keep, profile, say }, stopSignal())
}

/** Removes the remains of a service in the cluster, and the label of its nodes. */
export async function removePods(config: Config, { label }: { label?: string }): Promise<void> {
  if (config.scope === undefined) throw new ConfigError('COB_SCOPE', 'must be that of the service whose pods are to be removed')
  const cluster = openCluster(config.kubernetes.namespace)
  const { pods, policies } = await removeScope(cluster, config.scope, stopSignal())
  say(`removed ${pods} pods and ${policies} network policies of the scope ${config.scope}`)
  if (label !== undefined) say(`took the label ${label} from ${await removeLabel(cluster.core, label)} nodes`)
}
