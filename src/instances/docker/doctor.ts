// The findings of `cob doctor` on a Docker host: whether instances can be started there, and what isolates them.
import Docker from 'dockerode'
import type { Check } from '../../base/check.ts'
import type { Config } from '../../base/config.ts'

/** Limit on one question. */
const ASK_MS = 10_000
/** The first version of the API with everything that the driver uses (Docker 20.10). */
const LEAST_API = 1.41

/** The used fields of Docker's own description. */
interface Info {
  ApiVersion: string
  SecurityOptions: string[]
  MemoryLimit: boolean
  PidsLimit: boolean
  SwapLimit: boolean
  Runtimes: Record<string, unknown>
}

export async function dockerChecks({
  host,
  docker: { image, runtime, publish },
  containers: { apiUrl },
}: Pick<Config, 'docker' | 'containers' | 'host'>): Promise<Check[]> {
  const docker = new Docker({ timeout: ASK_MS })
  const where = process.env.DOCKER_HOST ?? '/var/run/docker.sock'
  let info: Info
  try {
    info = { ...((await docker.info()) as Omit<Info, 'ApiVersion'>), ApiVersion: (await docker.version()).ApiVersion }
  } catch (error) {
    return [{ name: 'Docker', problem: `no daemon answers at ${where}: ${(error as Error).message} (DOCKER_HOST names another one)`, fatal: true }]
  }
  const hasImage = await docker
    .getImage(image)
    .inspect()
    .then(
      () => true,
      () => false,
    )
  const isRootless = info.SecurityOptions.some((option) => option.includes('rootless'))
  const check = (name: string, isWell: boolean, problem: string, fatal = true): Check => ({ name, problem: isWell ? undefined : problem, fatal })
  return [
    check('Docker', Number(info.ApiVersion) >= LEAST_API, `its API is ${info.ApiVersion}; ${LEAST_API} is needed (Docker 20.10)`),
    check('image of instances', hasImage, `${image} is not there (script/image, or set COB_DOCKER_IMAGE)`),
    check(
      'user namespaces',
      isRootless || !info.SecurityOptions.some((option) => option.includes('userns')),
      'the daemon maps users (userns-remap), and then refuses the helper that reads the addresses of the host: instances cannot be started',
    ),
    check(
      'seccomp',
      info.SecurityOptions.some((option) => option.includes('seccomp')),
      'the daemon has no seccomp: sessions would have all system calls, so none is started',
    ),
    check('limits', info.MemoryLimit && info.PidsLimit, 'the daemon cannot limit memory or processes of containers', false),
    check('swap', info.SwapLimit, 'the daemon cannot limit the swap of containers: where the host has swap, files of sessions may fill it', false),
    check('runtime', runtime === undefined || runtime in info.Runtimes, `COB_DOCKER_RUNTIME: the daemon has no runtime ${runtime}`),
    check('addresses of containers', !isRootless || publish !== undefined, 'a rootless daemon has a network of its own: set COB_DOCKER_PUBLISH=127.0.0.1'),
    check(
      'apps',
      apiUrl !== undefined || !/^(127\.|::1$|localhost$)/.test(host),
      'the code of apps does not reach the API, which listens on loopback: set COB_HOST to an address of the Docker host, or COB_APPS_API_URL',
      false,
    ),
    check(
      'isolation',
      runtime !== undefined,
      "containers share the host's kernel; each has no rights, a filter of system calls, Chromium's own sandbox, and a network closed to the host, private networks and other sessions. A runtime such as gVisor (COB_DOCKER_RUNTIME) adds a wall",
      false,
    ),
  ]
}
