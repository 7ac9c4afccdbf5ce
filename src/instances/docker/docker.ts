// The engine of containers over Docker's API (1.41, and compatible engines), by dockerode. Containers are found by their labels: of the scope, the kind and the
// id.
import Docker, { type ContainerInspectInfo } from 'dockerode'
import type { Duplex } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { printed, PROGRAM_PORT, type Address, type ContainerKind, type ContainerPlan, type Engine } from '../containers/engine.ts'
import { seccompProfile } from '../containers/seccomp.ts'
import { labelsOf, LABELS, nameOf } from '../containers/labels.ts'
import { dockerNetwork } from './network.ts'

/** Limit on one call of the API. Most take milliseconds, a start half a second, and many times that on a busy machine. */
const CALL_MS = 60_000
/** The daemon notices an end within milliseconds, and later on a busy machine. */
const NOTICES_MS = 5_000

interface EngineSettings {
  config: Pick<Config, 'docker' | 'containers' | 'allowHostLoopback'>
  scope: string
  replica: string
  log: Log
}

/** Whether an error of the API has this HTTP status. */
const hasStatus = (error: unknown, status: number): boolean => (error as { statusCode?: number }).statusCode === status

/** Makes the engine. The daemon is that of DOCKER_HOST, or the machine's own. */
export function dockerEngine({ config, scope, replica, log }: EngineSettings): Engine {
  const docker = new Docker({ timeout: CALL_MS })
  const { image, runtime, publish } = config.docker
  const network = dockerNetwork({ docker, config, scope, log })
  const seccomp = `seccomp=${JSON.stringify(seccompProfile())}`

  const inspect = async (kind: ContainerKind, id: string): Promise<ContainerInspectInfo | undefined> => {
    try {
      return await docker.getContainer(nameOf(kind, id)).inspect()
    } catch (error) {
      if (hasStatus(error, 404)) return undefined
      throw error
    }
  }

  /** Undefined when it has none. */
  function addressOf(info: ContainerInspectInfo): Address | undefined {
    if (publish !== undefined) {
      const port = info.NetworkSettings.Ports[`${PROGRAM_PORT}/tcp`]?.[0]?.HostPort
      return port ? { host: publish, port: Number(port) } : undefined
    }
    const host = info.NetworkSettings.Networks[network.name]?.IPAddress
    return host ? { host, port: PROGRAM_PORT } : undefined
  }

  return {
    // A call is not abandoned when the signal aborts: its container and its connection would stay. Each call is short, and bounded by CALL_MS.
    async start(plan, signal) {
      await network.ready(signal)
      const container = await docker.createContainer({ name: nameOf(plan.kind, plan.id), ...bodyOf(plan) })
      signal.throwIfAborted()
      const stdin = (await container.attach({ stream: true, stdin: true, hijack: true })) as Duplex
      try {
        // Its output is not read here.
        stdin.on('error', (err) => log.debug({ err }, 'the input of a container broke off')).resume()
        await container.start()
        const closed = network.close(container.id, plan.reaches, signal)
        closed.catch(() => {}) // it is awaited below
        // A build runs code of strangers as soon as it has its input. A browser shows an empty page until its session begins.
        if (plan.kind === 'app') await closed
        stdin.end(plan.input)
        await within('the input of a container', CALL_MS, finished(stdin, { readable: false }), signal)
        const [info] = await Promise.all([container.inspect(), closed])
        const address = addressOf(info)
        if (!address) throw new Error(`Docker gave a container no address in the network ${network.name}, or no published port`)
        return address
      } finally {
        // The daemon has received the input, and would keep the connection open as long as the container runs.
        stdin.destroy()
      }
    },
    async found(kind) {
      const label = Object.entries(labelsOf(scope, kind)).map(([name, value]) => `${name}=${value}`)
      const list = await within('the list of containers', CALL_MS, docker.listContainers({ all: true, filters: { label } }))
      return list.map(({ Labels }) => ({ id: Labels[LABELS.id]!, replica: Labels[LABELS.replica] }))
    },
    async running(kind, id) {
      const info = await inspect(kind, id)
      if (!info?.State.Running) return undefined
      // The container was started in another network, or without a published port: it cannot be reached.
      const address = addressOf(info)
      return address && { note: info.Config.Labels[LABELS.note] ?? '', address }
    },
    async whyEnded(kind, id) {
      const state = (await inspect(kind, id))?.State
      if (!state) return { reason: 'the container is gone' }
      if (state.Running || state.Status === 'created') return undefined
      return state.OOMKilled ? { reason: 'the container had no memory left', limit: 'memory' } : { reason: `the container ended with ${state.ExitCode}` }
    },
    noticesMs: NOTICES_MS,
    async said(kind, id) {
      const output = await docker.getContainer(nameOf(kind, id)).logs({ stdout: true, stderr: true, tail: 50 })
      // Each piece has a head of eight bytes that is not text.
      return printed(output.toString('utf8'))
    },
    async remove(kind, id) {
      const container = docker.getContainer(nameOf(kind, id))
      try {
        await within('a container to be removed', CALL_MS, container.remove({ force: true, v: true }))
      } catch (error) {
        // 409: it is being removed already.
        if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error
        if (hasStatus(error, 409)) await within('a container to be removed', CALL_MS, container.wait({ condition: 'removed' })).catch(ignoreGone)
      }
    },
    async [Symbol.asyncDispose]() {},
  }

  function bodyOf(plan: ContainerPlan): Omit<Docker.ContainerCreateOptions, 'name'> {
    const { memoryBytes, pids, cpuPercent } = plan.limits
    const port = `${PROGRAM_PORT}/tcp`
    return {
      Image: image,
      Cmd: plan.args,
      Env: Object.entries(plan.env).map(([name, value]) => `${name}=${value}`),
      Labels: labelsOf(scope, plan.kind, { [LABELS.id]: plan.id, [LABELS.replica]: replica, [LABELS.note]: plan.note }),
      Hostname: 'cob',
      User: '1000:1000',
      OpenStdin: true,
      StdinOnce: true,
      AttachStdin: true,
      ...(publish !== undefined && { ExposedPorts: { [port]: {} } }),
      HostConfig: {
        NetworkMode: network.name,
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges', seccomp],
        Tmpfs: Object.fromEntries(
          plan.folders.map(({ path, bytes, inodes, mode }) => [path, `rw,exec,nosuid,nodev,size=${bytes},nr_inodes=${inodes},mode=${mode},uid=1000,gid=1000`]),
        ),
        Memory: memoryBytes,
        // No swap in addition: the memory limit applies to both together.
        MemorySwap: memoryBytes,
        PidsLimit: pids,
        ...(cpuPercent > 0 && { NanoCpus: cpuPercent * 10_000_000 }),
        Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
        // When the machine runs out of memory, the kernel ends a process of a session before it ends the service or its database.
        OomScoreAdj: 100,
        IpcMode: 'private',
        LogConfig: { Type: 'json-file', Config: { 'max-size': '1m', 'max-file': '1' } },
        ...(runtime !== undefined && { Runtime: runtime }),
        ...(config.containers.resolvers.length > 0 && { Dns: config.containers.resolvers }),
        ...(publish !== undefined && { PortBindings: { [port]: [{ HostIp: publish, HostPort: '' }] } }),
        ExtraHosts: network.hosts(plan.reaches),
      },
    }
  }
}

function ignoreGone(error: unknown): void {
  if (!hasStatus(error, 404)) throw error
}
