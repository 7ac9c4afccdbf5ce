// The driver that the settings name. Each is loaded only when it is used.
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { DataPaths } from '../../base/paths.ts'
import type { Endpoints } from '../../http/stored-endpoint.ts'
import type { Driver } from '../../instances/driver.ts'

/** Makes it. @throws when it cannot work here */
export async function makeDriver(config: Config, paths: DataPaths, scope: string, log: Log, replica: string, endpoints: Endpoints): Promise<Driver> {
  switch (config.driver) {
    case 'local':
    case 'local-tls':
      return (await import('../../instances/local/local.ts')).localDriver(config, paths, scope, log, replica)
    case 'docker': {
      const [{ dockerEngine }, { containerDriver }] = await Promise.all([
        import('../../instances/docker/docker.ts'),
        import('../../instances/containers/driver.ts'),
      ])
      return containerDriver({ config, engine: dockerEngine({ config, scope, replica, log }), endpoints, log })
    }
    case 'kubernetes': {
      const [{ checkPodPatch, kubernetesEngine }, { containerDriver }] = await Promise.all([
        import('../../instances/kubernetes/kubernetes.ts'),
        import('../../instances/containers/driver.ts'),
      ])
      await checkPodPatch({ config, scope, replica }, log)
      return containerDriver({ config, engine: kubernetesEngine({ config, scope, replica, log }), endpoints, log })
    }
    case 'fake':
      return (await import('../../instances/fake/fake.ts')).fakeDriver(paths, { replica })
  }
}
