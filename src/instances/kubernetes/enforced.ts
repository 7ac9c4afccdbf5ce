// Whether the cluster enforces network policies: a pod that has the policy of browsers listens at two ports, of which that leaves one open.
import { connect } from 'node:net'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import { PROGRAM_PORT } from '../containers/engine.ts'
import { HELPER, LABELS } from '../containers/labels.ts'
import { deletePod, failed, listPods, type Cluster } from './api.ts'
import { addressOf, container, shared, type PodSettings } from './pod.ts'
import type { Pods } from './pods.ts'

/** Limit on all of it; most of the time goes for the start of a pod. */
const TRIAL_MS = 110_000
const LISTENS_MS = 20_000
/** A closed port answers nothing for so long. */
const CLOSED_MS = 2_000
const CONNECT_MS = 2_000
/** A trial that was killed is removed by the next one after this time. */
const LEFT_MS = 300_000

const OTHER_PORT = PROGRAM_PORT + 1
const LISTEN = `
import socket, time
held = [socket.create_server(('', port)) for port in (${PROGRAM_PORT}, ${OTHER_PORT})]
time.sleep(${TRIAL_MS / 1000})
`

interface Trial {
  cluster: Cluster
  config: PodSettings['config']
  scope: string
  pods: Pods
  log: Log
}

/** @throws when policies are not enforced, or that could not be found out */
export async function assertEnforced({ cluster, config, scope, pods, log }: Trial): Promise<void> {
  const { core, namespace } = cluster
  const signal = AbortSignal.timeout(TRIAL_MS)
  const labels = { [LABELS.scope]: scope, [LABELS.kind]: HELPER }
  await sweep().catch((err: unknown) => log.debug({ err }, 'pods of broken-off trials are removed later'))
  const name = `cob-helper-${newId()}`
  const body = {
    metadata: { name, labels },
    spec: {
      ...shared(config),
      activeDeadlineSeconds: TRIAL_MS / 1000,
      containers: [
        {
          ...container(config),
          command: ['/usr/bin/python3', '-c', LISTEN],
          resources: { limits: { memory: '64Mi', cpu: '100m' }, requests: { memory: '32Mi', cpu: '10m' } },
        },
      ],
    },
  }
  try {
    await core.createNamespacedPod({ namespace, body }).catch((error: unknown) => {
      throw failed('making a pod to try the network', error)
    })
    const { host } = await pods.when(
      name,
      (standing, pod) => {
        if (standing.state === 'ended') throw new Error(`the pod that tries the network: ${standing.why}`)
        return standing.state === 'running' ? addressOf(pod!) : undefined
      },
      signal,
    )
    await until('a pod to be reached', LISTENS_MS, () => reaches(host, PROGRAM_PORT, CONNECT_MS), { everyMs: 100, signal })
    if (await reaches(host, OTHER_PORT, CLOSED_MS)) throw new OpenNetwork()
  } finally {
    await deletePod(cluster, name, 0).catch((err: unknown) => log.warn({ err }, 'a pod that tried the network was not removed; the next trial does'))
  }

  async function sweep(): Promise<void> {
    for (const { metadata } of await listPods(cluster, labels))
      if (Date.now() - new Date(metadata!.creationTimestamp!).getTime() > LEFT_MS) await deletePod(cluster, metadata!.name!, 0)
  }
}

/** Sessions would reach the cluster's network. */
export class OpenNetwork extends Error {
  constructor() {
    super(
      "the cluster's network does not enforce network policies, so sessions would reach the cluster and each other: use a network that does (Calico, Cilium), or set COB_KUBERNETES_ALLOW_OPEN_NETWORK=1",
    )
    this.name = 'OpenNetwork'
  }
}

async function reaches(host: string, port: number, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({ host, port })
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
  socket.setTimeout(ms, () => resolve(false))
  try {
    return await promise
  } finally {
    socket.destroy()
  }
}
