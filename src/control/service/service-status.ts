// The status of the service with these settings, read from another process.
import type * as z from 'zod'
import { call, CallFailed } from '../../http/client.ts'
import type { Db } from '../../store/db.ts'
import { livingReplicas } from '../../store/leases.ts'
import { system } from './system/contract.ts'

/** A service that takes longer to report its status is not well. */
const ANSWER_MS = 10_000
const MAX_STATUS_BYTES = 64 * 1024
/** Metrics of all routes are some hundred KB. */
const MAX_METRICS_BYTES = 8 * 1024 * 1024

export interface ServiceStatus {
  status: z.output<typeof system.getStatus.reply.schema>['status']
  components: { name: string; status: string }[]
  /** Browsers by state. */
  browsers: Record<string, number>
  diskFreeBytes: number | undefined
  /** Replicas that share the scope; empty when one service has it alone. */
  replicas: string[]
}

interface Asked {
  host: string
  port: number
  /** A key for all projects. */
  key: string
  /** Calls `work` with the service's database and scope. */
  withDatabase: <T>(work: (db: Db, scope: string) => Promise<T>) => Promise<T>
  signal: AbortSignal
}

/** Undefined when no service answers there. @throws when something else answers, or the service refuses the key */
export async function serviceStatus({ host, port, key, withDatabase, signal }: Asked): Promise<ServiceStatus | undefined> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])
  const answer = await call({ host, port }, system.getStatus, {}, { signal: limited, maxBytes: MAX_STATUS_BYTES }).catch((error: unknown) => {
    if (error instanceof CallFailed && error.isUnreceived) return undefined
    throw error
  })
  if (!answer) return undefined
  const metrics = await metricsOf(`http://${host.includes(':') ? `[${host}]` : host}:${port}/metrics`, key, limited)
  return {
    status: answer.status,
    components: answer.groups.flatMap(({ components }) => components),
    browsers: Object.fromEntries([...metrics.matchAll(/^cob_all_browsers\{state="(\w+)"\} (\d+)$/gm)].map(([, state, count]) => [state!, Number(count)])),
    diskFreeBytes: Number(/^cob_disk_free_bytes (\S+)$/m.exec(metrics)?.[1] ?? Number.NaN) || undefined,
    replicas: await withDatabase(livingReplicas),
  }
}

async function metricsOf(url: string, key: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal, redirect: 'error' })
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > MAX_METRICS_BYTES) throw new Error(`${url} answers more than ${MAX_METRICS_BYTES} bytes`)
  }
  if (!response.ok) throw new Error(`${url} answers ${response.status}: is another service there, with another key? ${text.slice(0, 200)}`)
  return text
}
