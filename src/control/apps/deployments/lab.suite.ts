// Deployments over fake sandboxes and a database of their own, for the tests of this file's importer.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { startAppHost, type AppHost } from '../../../../test/support/apps.ts'
import { until } from '../../../base/wait.ts'
import type { Deployments } from './deployments.ts'

/** Timeout for the service to notice a change by itself. */
export const NOTICE_MS = 10_000

export let host: AppHost
beforeAll(async () => {
  host = await startAppHost()
})
afterAll(() => host[Symbol.asyncDispose]())
const services: Deployments[] = []
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service[Symbol.asyncDispose]()))
  await host.db.deleteFrom('deployments').execute()
  for (const kind of ['archives', 'code']) rmSync(join(host.paths.objects, kind), { recursive: true, force: true })
})

/** A service, which ends with the test. */
export function service(settings: Parameters<AppHost['service']>[0] = {}): Deployments {
  const made = host.service(settings)
  services.push(made)
  return made
}
/** A service as the next start makes it. */
export function restarted(settings: Parameters<AppHost['service']>[0] = {}): Deployments {
  const deployments = service(settings)
  deployments.start()
  return deployments
}
export const row = (id: string) => host.db.selectFrom('deployments').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
export const reaches = (id: string, state: string) =>
  until(`deployment ${id} to be ${state}`, NOTICE_MS, async () => ((await row(id)).state === state ? row(id) : false))
export const lines = async (id: string) =>
  (await host.db.selectFrom('app_events').select('line').where('deployment_id', '=', id).where('kind', '=', 'log').orderBy('id').execute()).map(
    ({ line }) => line,
  )
export const cleaned = (id: string) => until('the rest of it to go', NOTICE_MS, async () => (await row(id)).secrets === null)
