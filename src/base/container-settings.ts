// The settings of drivers that run instances as containers.
import { addressList } from './address-list.ts'
import { ConfigError, origin } from './setting.ts'

export interface DockerSettings {
  /** The image of instances (script/image). */
  image: string
  /** The bridge network of instances; undefined: one of this scope, made when it is first needed. */
  network: string | undefined
  /** The runtime of containers, such as `runsc`; undefined: the daemon's default. */
  runtime: string | undefined
  /** An address of the Docker host at which each instance's port is published; undefined: instances are reached at their own addresses. */
  publish: string | undefined
  /** Resolvers of instances; without any, Docker's. */
  resolvers: string[]
  /** Where the code of apps reaches the API; undefined: at the engine's host, at the port where the service listens. */
  apiUrl: string | undefined
  /** Private networks that instances may reach. */
  openNetworks: string[]
}

export function dockerSettings(env: NodeJS.ProcessEnv): DockerSettings {
  const [publish, ...more] = list(env, 'COB_DOCKER_PUBLISH')
  if (more.length > 0) throw new ConfigError('COB_DOCKER_PUBLISH', 'must be one address of the Docker host')
  return {
    image: env.COB_DOCKER_IMAGE || 'cob-instance',
    network: env.COB_DOCKER_NETWORK || undefined,
    runtime: env.COB_DOCKER_RUNTIME || undefined,
    publish,
    resolvers: list(env, 'COB_DOCKER_DNS'),
    apiUrl: origin(env, 'COB_APPS_API_URL'),
    openNetworks: list(env, 'COB_OPEN_NETWORKS', true),
  }
}

/** Addresses, or also subnets, with commas between them. */
function list(env: NodeJS.ProcessEnv, name: string, subnets = false): string[] {
  const texts = (env[name] ?? '').split(',').flatMap((text) => text.trim() || [])
  try {
    addressList(texts)
    if (!subnets && texts.some((text) => text.includes('/'))) throw new Error('a subnet is no address')
    return texts
  } catch (error) {
    throw new ConfigError(name, `must be addresses${subnets ? ' or subnets' : ''} with commas between them: ${(error as Error).message}`)
  }
}
