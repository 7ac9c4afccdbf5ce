// Tests whether the cluster enforces network policies, in both directions. A pod with such a policy listens at two ports, one of which the policy allows, and
// tries to reach another pod, which the policy forbids.
import { connect, isIP } from 'node:net'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import { PROGRAM_PORT, type ContainerKind } from '../containers/engine.ts'
import { LABELS } from '../containers/labels.ts'
import { deletePod, listPods, type Cluster } from './api.ts'
import { container, shared, type PodSettings } from './pod.ts'
import { TARGET, triesOf } from './policy.ts'
import type { StartPod } from './starts.ts'

/** Limit on the whole trial; the start of a pod takes most of it. */
const TRIAL_MS = 110_000
const LISTENS_MS = 20_000
/** Time without an answer after which a port counts as closed. */
const CLOSED_MS = 2_000
const CONNECT_MS = 2_000
/** The next trial removes a killed one after this time. */
const LEFT_MS = 300_000

const OTHER_PORT = PROGRAM_PORT + 1
/** Limit on an answer of a pod, which tries a connection for it. */
const ANSWER_MS = 10_000
/** Characters of an answer. */
const MAX_ANSWER = 10_000
/** Most resolvers of a pod (Kubernetes). */
const MAX_RESOLVERS = 3

/** Listens at both ports, and answers the questions at the first one. */
const PROGRAM = `
import socket

def listen(port):
    if socket.has_dualstack_ipv6():
        return socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(('', port))

def answer(words):
    if words == ['resolvers']:
        with open('/etc/resolv.conf') as file:
            return file.read()
    try:
        socket.create_connection((words[0], int(words[1])), ${CONNECT_MS / 1000}).close()
        return 'reached'
    except OSError:
        return 'closed'

other, own = listen(${OTHER_PORT}), listen(${PROGRAM_PORT})
while True:
    connection, _ = own.accept()
    with connection:
        try:
            connection.settimeout(${ANSWER_MS / 1000})
            words = connection.makefile().readline().split()
            if words:
                connection.sendall(answer(words).encode())
        except OSError:
            pass
`

interface Trial {
  cluster: Cluster
  config: PodSettings['config']
  scope: string
  startPod: StartPod
  log: Log
}

/** @throws when the policies of a kind are not enforced, or that could not be found out */
export const assertEnforced = (kind: ContainerKind, trial: Trial): Promise<void> =>
  withPod(trial, TARGET, (target, signal) =>
    withPod(trial, triesOf(kind), async (host) => {
      if (await reaches(host, OTHER_PORT, CLOSED_MS)) throw new OpenNetwork(`a port of pods of the kind ${kind} that the policy closes was reached`)
      // Only the policy of the other pod prevents that one from reaching this one.
      await until('a pod to be reached', LISTENS_MS, () => reaches(target, OTHER_PORT, CONNECT_MS), { everyMs: 100, signal })
      const found = await ask(host, `${target} ${OTHER_PORT}`)
      if (found === 'reached') throw new OpenNetwork(`a pod of the kind ${kind} reached another pod, which the policy closes to it`)
      if (found !== 'closed') throw new Error(`the pod that tries the network answered ${JSON.stringify(found)}`)
    }),
  )

/** The resolvers that the cluster's nodes give to pods, except those that only the node itself can reach. */
export const nodeResolvers = (trial: Trial): Promise<string[]> => withPod(trial, triesOf('browser'), async (host) => resolversIn(await ask(host, 'resolvers')))

export const resolversIn = (text: string): string[] =>
  [...text.matchAll(/^nameserver[ \t]+(\S+)/gm)]
    .map(([, address]) => address!)
    .filter((address) => isIP(address) !== 0 && !address.includes('%') && !/^(127\.|::1$)/.test(address))
    .slice(0, MAX_RESOLVERS)

/** Starts a pod and runs `work` with its address once it listens. */
async function withPod<T>({ cluster, config, scope, startPod, log }: Trial, kind: string, work: (host: string, signal: AbortSignal) => Promise<T>): Promise<T> {
  const signal = AbortSignal.timeout(TRIAL_MS)
  const labels = { [LABELS.scope]: scope, [LABELS.kind]: kind }
  await sweep().catch((err: unknown) => log.debug({ err }, 'pods of broken-off trials are removed later'))
  const name = `cob-helper-${newId()}`
  const body = {
    metadata: { name, labels },
    spec: {
      ...shared(config),
      dnsPolicy: 'Default',
      activeDeadlineSeconds: TRIAL_MS / 1000,
      containers: [
        {
          ...container(config),
          command: ['/usr/bin/python3', '-c', PROGRAM],
          resources: { limits: { memory: '64Mi', cpu: '100m' }, requests: { memory: '32Mi', cpu: '10m' } },
        },
      ],
    },
  }
  try {
    const { host } = await startPod(name, body, signal)
    if (kind !== TARGET) await until('a pod to be reached', LISTENS_MS, () => reaches(host, PROGRAM_PORT, CONNECT_MS), { everyMs: 100, signal })
    return await work(host, signal)
  } finally {
    await deletePod(cluster, name, 0).catch((err: unknown) => log.warn({ err }, 'a pod that tried the network was not removed; the next trial does'))
  }

  async function sweep(): Promise<void> {
    for (const { metadata } of await listPods(cluster, labels))
      if (Date.now() - new Date(metadata!.creationTimestamp!).getTime() > LEFT_MS) await deletePod(cluster, metadata!.name!, 0)
  }
}

/** The error of a cluster without enforcement: sessions would reach the cluster's network. */
export class OpenNetwork extends Error {
  constructor(found: string) {
    super(
      `the cluster's network does not enforce network policies (${found}), so sessions would reach the cluster and each other: use a network that does (Calico, Cilium), or set COB_KUBERNETES_ALLOW_OPEN_NETWORK=1`,
    )
    this.name = 'OpenNetwork'
  }
}

/** The answer of a pod's program. */
async function ask(host: string, question: string): Promise<string> {
  const socket = connect({ host, port: PROGRAM_PORT })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const timer = setTimeout(() => reject(new Error('the pod that tries the network does not answer')), ANSWER_MS)
  let answer = ''
  socket
    .setEncoding('utf8')
    .on('data', (text: string) => (answer.length > MAX_ANSWER ? reject(new Error('the pod that tries the network says too much')) : (answer += text)))
    .once('end', () => resolve(answer))
    .once('error', reject)
  try {
    socket.write(`${question}\n`)
    return await promise
  } finally {
    clearTimeout(timer)
    socket.destroy()
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
