// A service that exports its audit log to an S3 server in the test's process, and calls for its destinations.
import type { ExportDestination } from '../../src/control/access/audit-logs/exports/contract.ts'
import { newId } from '../../src/base/ids.ts'
import { startFastCloud, type FastCloud } from './fast-cloud.ts'
import { KEYS, s3Server, type S3Server } from './s3.ts'

export const PATH = '/audit-logs/export/destinations'
export const ROLE = 'arn:aws:iam::123456789012:role/logs'
export const PRINCIPAL = 'arn:aws:iam::999999999999:user/cob'

/** The settings of a service that exports to `server` every second. */
export const exportsTo = (server: S3Server): Record<string, string> => ({
  COB_WARM_BROWSERS: '0',
  COB_AUDIT_EXPORT_ACCESS_KEY_ID: KEYS.accessKeyId,
  COB_AUDIT_EXPORT_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
  COB_AUDIT_EXPORT_S3_ENDPOINT: server.url,
  COB_AUDIT_EXPORT_STS_ENDPOINT: server.url,
  COB_AUDIT_EXPORT_PRINCIPAL_ARN: PRINCIPAL,
  COB_AUDIT_EXPORT_SECONDS: '1',
})

/** A valid body for a destination. */
export const wanted = (more: object = {}) => ({ type: 's3', format: 'jsonl.gz', bucket: 'logs', prefix: newId(), region: 'eu-west-1', role_arn: '', ...more })

export interface Exporting extends AsyncDisposable {
  s3: S3Server
  cloud: FastCloud
  /** These throw when the answer is not a success. */
  create(more?: object): Promise<ExportDestination>
  change(id: string, changes: object): Promise<ExportDestination>
  get(id: string): Promise<ExportDestination>
  test(id: string): Promise<unknown>
  remove(id: string): Promise<Response>
}

export async function startExporting(): Promise<Exporting> {
  await using scope = new AsyncDisposableStack()
  const s3 = scope.use(await s3Server())
  const cloud = scope.use(await startFastCloud(exportsTo(s3)))
  const good = async <T>(asked: Promise<Response>): Promise<T> => {
    const answer = await asked
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`)
    return (await answer.json()) as T
  }
  const owner = scope.move()
  return {
    s3,
    cloud,
    create: (more) => good(cloud.send('POST', PATH, wanted(more))),
    change: (id, changes) => good(cloud.send('PATCH', `${PATH}/${id}`, changes)),
    get: (id) => good(cloud.fetch(`${PATH}/${id}`)),
    test: (id) => good(cloud.fetch(`${PATH}/${id}/test`, { method: 'POST' })),
    remove: (id) => cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' }),
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
