// The network of containers on a Docker host: one bridge for a scope, and walls in the network namespace of each container, set by a helper container that shares it.
import type Docker from 'dockerode'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { HOST_ALIAS } from '../../base/own-addresses.ts'
import { abortable, within } from '../../base/wait.ts'
import type { Address } from '../containers/engine.ts'
import { HELPER, LABELS } from '../containers/labels.ts'
import { rulesOf } from '../containers/walls.ts'

/** The addresses of the host and its networks change seldom. */
const REMEMBER_MS = 60_000
/** A helper takes half a second, and many times that on a busy machine. */
const HELPER_MS = 60_000
const LOOKUP_MS = 5_000
/** Lists the routes to the host itself, of all routing tables. */
const LIST_OWN = 'ip -4 -oneline route show table local; ip -6 -oneline route show table local 2>/dev/null || true'
/** In seconds; no helper takes this long. The daemon's clock may be another one, so only those that have ended are removed. */
const LEFT_S = 300

interface DockerNetwork {
  name: string
  /** Makes the network unless it exists, and reads the near addresses. */
  ready(signal: AbortSignal): Promise<void>
  /** Closes the network of a container that runs. @throws when it cannot be closed: then the container must not be used */
  close(containerId: string, servers: readonly Address[], signal: AbortSignal): Promise<void>
  /** Lines for its /etc/hosts. Call it when {@link ready} has resolved. */
  hosts(servers: readonly Address[]): string[]
}

interface NetworkSettings {
  docker: Docker
  config: Pick<Config, 'docker' | 'containers' | 'allowHostLoopback'>
  scope: string
  log: Log
}

export function dockerNetwork({ docker, config, scope, log }: NetworkSettings): DockerNetwork {
  const { image } = config.docker
  const { openNetworks, closedNetworks, resolvers } = config.containers
  const name = config.docker.network ?? `cob-${scope}`
  let known: { gateway: string; closed: string[] } | undefined
  let knownAt = -Infinity
  let learning: Promise<void> | undefined

  /** Runs a program of the image in a network namespace, with `rights` over that, and returns what it has printed. @throws when it fails */
  async function helper(network: string, rights: string[], command: string[], signal: AbortSignal): Promise<string> {
    const container = await docker.createContainer({
      Image: image,
      Entrypoint: command,
      Cmd: [],
      User: '0:0',
      Labels: { [LABELS.scope]: scope, [LABELS.kind]: HELPER },
      HostConfig: {
        NetworkMode: network,
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        CapAdd: rights,
        SecurityOpt: ['no-new-privileges'],
        LogConfig: { Type: 'json-file', Config: {} },
      },
    })
    try {
      await container.start()
      // When its caller has given up, the removal below ends it, and with it this call.
      const { StatusCode: code } = (await within('a helper', HELPER_MS, container.wait(), signal)) as { StatusCode: number }
      const said = (await container.logs({ stdout: true, stderr: true })).toString('utf8')
      if (code !== 0) throw new Error(`${command[0]} in a helper container ended with ${code}: ${said.slice(0, 500)}`)
      return said
    } finally {
      await container.remove({ force: true }).catch((err: unknown) => log.warn({ err }, 'a helper container was not removed; a later look at the network does'))
    }
  }

  /** Removes the helpers of killed services. A younger helper may belong to another replica. */
  async function sweep(): Promise<void> {
    const filters = { label: [`${LABELS.scope}=${scope}`, `${LABELS.kind}=${HELPER}`] }
    const left = (await docker.listContainers({ all: true, filters })).filter(
      ({ Created, State }) => State === 'exited' && Date.now() / 1000 - Created > LEFT_S,
    )
    for (const { Id } of left) await docker.getContainer(Id).remove({ force: true })
  }

  async function learn(): Promise<void> {
    // Several callers wait for this, so no single caller may abort it.
    const signal = AbortSignal.timeout(HELPER_MS)
    await sweep().catch((err: unknown) => log.debug({ err }, 'helper containers are removed later'))
    const network = docker.getNetwork(name)
    let info = (await network.inspect().catch((error: { statusCode?: number }) => {
      if (error.statusCode !== 404) throw error
      return undefined
    })) as Docker.NetworkInspectInfo | undefined
    if (!info) {
      // Two services may make it at once.
      await docker
        .createNetwork({ Name: name, Driver: 'bridge', CheckDuplicate: true, Labels: { [LABELS.scope]: scope } })
        .catch((error: { statusCode?: number }) => {
          if (error.statusCode !== 409) throw error
        })
      info = (await network.inspect()) as Docker.NetworkInspectInfo
    }
    const gateway = info.IPAM?.Config?.[0]?.Gateway
    if (!gateway) throw new Error(`the Docker network ${name} has no gateway`)
    const [networks, addresses] = await Promise.all([docker.listNetworks(), helper('host', [], ['/bin/sh', '-c', LIST_OWN], signal)])
    const subnets = networks.flatMap(({ IPAM }) => (IPAM?.Config ?? []).flatMap(({ Subnet }) => (Subnet ? [Subnet] : [])))
    // Lines such as `local 192.0.2.2 dev eth0 …`, also of whole ranges.
    const own = [...addresses.matchAll(/^(?:local|anycast|broadcast) ([0-9a-f.:]+(?:\/\d+)?) /gm)].map(([, range]) => range!)
    known = { gateway, closed: [...new Set([...subnets, ...own])] }
    knownAt = performance.now()
  }

  return {
    name,
    async ready(signal) {
      if (known && performance.now() - knownAt < REMEMBER_MS) return
      learning ??= learn().finally(() => (learning = undefined))
      await abortable(learning, signal)
    },
    async close(containerId, reached, signal) {
      const servers = await Promise.all(
        reached.map(async ({ host, port }) => ({ host: host === HOST_ALIAS ? known!.gateway : await addressOf(host, signal), port })),
      )
      const open = [...openNetworks, ...(config.allowHostLoopback ? [known!.gateway] : [])]
      const rules = rulesOf({ closed: [...known!.closed, ...closedNetworks], open, servers, resolvers })
      await helper(`container:${containerId}`, ['NET_ADMIN'], ['/bin/sh', '-c', 'printf %s "$1" | nft -f -', 'sh', rules], signal)
    },
    hosts: (servers) => (config.allowHostLoopback || servers.some(({ host }) => host === HOST_ALIAS) ? [`${HOST_ALIAS}:${known!.gateway}`] : []),
  }
}

async function addressOf(host: string, signal: AbortSignal): Promise<string> {
  return isIP(host) === 0 ? (await within(`the address of ${host}`, LOOKUP_MS, lookup(host), signal)).address : host
}
