// The running service, for scripts: its address, whether it answers, and a key for it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readConfig } from '../src/base/config.ts'
import { system } from '../src/control/service/system/contract.ts'

/** A problem that the user can fix: printed without a stack. */
export class ServiceError extends Error {}

export const serviceUrl = (): string => process.env.KERNEL_BASE_URL || 'http://127.0.0.1:2627'

/** @throws ServiceError when no service answers there, or it reports a problem */
export async function answering(url: string, signal: AbortSignal): Promise<void> {
  const { path } = system.getHealth
  const response = await fetch(new URL(path, url), { signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]) }).catch((error: unknown) => {
    throw signal.aborted
      ? signal.reason
      : new ServiceError(`no server answers at ${url}. Start one with script/server, or say where it is: KERNEL_BASE_URL=http://…`, { cause: error })
  })
  if (!response.ok)
    throw new ServiceError(`the server at ${url} is unhealthy: GET ${path} answered ${response.status} ${(await response.text()).slice(0, 300)}`)
}

/** The caller's key, or the one that this user's service keeps in its data directory. */
export function apiKey(): { key: string; source: string } {
  if (process.env.KERNEL_API_KEY) return { key: process.env.KERNEL_API_KEY, source: 'KERNEL_API_KEY' }
  const config = readConfig(process.env)
  if (config.apiKey) return { key: config.apiKey, source: 'COB_API_KEY' }
  const file = join(config.dataDir, 'api-key')
  try {
    return { key: readFileSync(file, 'utf8').trim(), source: file }
  } catch (error) {
    throw new ServiceError(
      `no API key: KERNEL_API_KEY is not set, and ${file} cannot be read (${(error as NodeJS.ErrnoException).code}). The service makes its key when it starts for the first time`,
      { cause: error },
    )
  }
}
