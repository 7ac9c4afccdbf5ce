// Writes exports to an S3 bucket, with the credentials of the service or of a role that it assumes. The operator chooses the servers.
import type { AuditExportSettings } from '../../../../base/config.ts'
import type { ExportDestination } from './contract.ts'

/** Limit on one call, with its retries. Both calls of a test fit into the deadline of its route. */
const CALL_MS = 25_000
const CONNECT_MS = 5_000
/** Attempts of one request. A destination that fails is tried again later. */
const ATTEMPTS = 2
/** The shortest time that STS allows: longer sessions need a setting of the role. */
const ROLE_SECONDS = 900
/** Credentials of a role are not used for a new object if they expire within this time. */
const MARGIN_MS = 120_000
const SESSION_NAME = 'cob-audit-export'
const MAX_MESSAGE = 500

/** The reason why an object cannot be written. The message is for callers: it contains a text of the server, but no address or credential. */
export class NotExported extends Error {
  readonly code: 'assume_role_failed' | 'put_object_failed'
  constructor(code: NotExported['code'], message: string, cause?: unknown) {
    super(clean(message), { cause })
    this.name = 'NotExported'
    this.code = code
  }
}

export type Place = Pick<ExportDestination, 'bucket' | 'region' | 'role_arn' | 'external_id'> & { kms_key_id: string | null }

/** One object. */
export interface Content {
  key: string
  type: string
  body: Buffer
}

export interface Target {
  /** The principal that roles must trust; empty when not known. */
  readonly principalArn: string
  /** Why the settings of this service allow no destination with this role (empty: without a role). Undefined when they allow it. */
  problem(role: string): { field: 'type' | 'role_arn'; problem: string } | undefined
  /** Writes an object. `isNew`: assumes the role again even if there are credentials. @throws NotExported; the signal's reason */
  put(place: Place, content: Content, signal: AbortSignal, options?: { isNew?: boolean }): Promise<void>
}

interface Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

export function makeTarget(settings: AuditExportSettings | undefined): Target {
  /** Credentials of roles, and their expiry. One entry for each role that a destination has had. */
  const assumed = new Map<string, { credentials: Credentials; endsAt: number }>()

  function problem(role: string): ReturnType<Target['problem']> {
    if (settings === undefined)
      return { field: 'type', problem: 'this service has no credentials for exports: its operator has to set COB_AUDIT_EXPORT_ACCESS_KEY_ID' }
    if (role !== '' && settings.s3Endpoint !== undefined && settings.stsEndpoint === undefined)
      return { field: 'role_arn', problem: 'this service cannot assume roles: leave it empty, or its operator has to set COB_AUDIT_EXPORT_STS_ENDPOINT' }
    return undefined
  }

  async function assume(own: AuditExportSettings, place: Place, isNew: boolean, signal: AbortSignal): Promise<Credentials> {
    const { accessKeyId, secretAccessKey, stsEndpoint } = own
    const { region, role_arn: role, external_id: externalId } = place
    if (role === '') return { accessKeyId, secretAccessKey }
    const name = nameOf(place)
    const known = assumed.get(name)
    if (known && !isNew && known.endsAt - Date.now() > MARGIN_MS) return known.credentials
    const { STSClient, AssumeRoleCommand } = await import('@aws-sdk/client-sts')
    const client = new STSClient({
      region,
      ...(stsEndpoint !== undefined && { endpoint: stsEndpoint }),
      credentials: { accessKeyId, secretAccessKey },
      maxAttempts: ATTEMPTS,
      requestHandler: { connectionTimeout: CONNECT_MS },
    })
    try {
      const { Credentials: given } = await call('assume_role_failed', signal, (abortSignal) =>
        client.send(new AssumeRoleCommand({ RoleArn: role, RoleSessionName: SESSION_NAME, ExternalId: externalId, DurationSeconds: ROLE_SECONDS }), {
          abortSignal,
        }),
      )
      if (!given?.AccessKeyId || !given.SecretAccessKey || !given.SessionToken) throw new NotExported('assume_role_failed', 'the answer has no credentials')
      const credentials = { accessKeyId: given.AccessKeyId, secretAccessKey: given.SecretAccessKey, sessionToken: given.SessionToken }
      for (const [other, { endsAt }] of assumed) if (endsAt < Date.now()) assumed.delete(other)
      assumed.set(name, { credentials, endsAt: given.Expiration?.getTime() ?? 0 })
      return credentials
    } finally {
      client.destroy()
    }
  }

  return {
    principalArn: settings?.principalArn ?? '',
    problem,
    async put(place, { key, type, body }, signal, { isNew = false } = {}) {
      const { bucket, region, role_arn: role, kms_key_id: kmsKey } = place
      const wrong = problem(role)
      if (settings === undefined || wrong) throw new NotExported(role === '' ? 'put_object_failed' : 'assume_role_failed', wrong!.problem)
      const credentials = await assume(settings, place, isNew, signal)
      // The S3 client is large; services without exports do not load it.
      const { S3Client, PutObjectCommand } = await import('@aws-sdk/client-s3')
      const client = new S3Client({
        region,
        // In the same form as for the service's own objects (store/objects-s3.ts).
        ...(settings.s3Endpoint !== undefined && { endpoint: settings.s3Endpoint, forcePathStyle: true }),
        credentials,
        maxAttempts: ATTEMPTS,
        requestHandler: { connectionTimeout: CONNECT_MS },
        requestChecksumCalculation: 'WHEN_REQUIRED',
        responseChecksumValidation: 'WHEN_REQUIRED',
      })
      const encrypted = kmsKey === null ? {} : { ServerSideEncryption: 'aws:kms' as const, SSEKMSKeyId: kmsKey }
      try {
        await call('put_object_failed', signal, (abortSignal) =>
          client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: type, ...encrypted }), { abortSignal }),
        )
      } catch (error) {
        // The credentials may have been revoked.
        assumed.delete(nameOf(place))
        throw error
      } finally {
        client.destroy()
      }
    },
  }
}

/** The fields on which credentials of a role depend. */
const nameOf = ({ region, role_arn, external_id }: Place): string => JSON.stringify([region, role_arn, external_id])

/** One call with its limit. @throws NotExported, or the reason of `signal` */
async function call<T>(code: NotExported['code'], signal: AbortSignal, work: (abortSignal: AbortSignal) => Promise<T>): Promise<T> {
  const limit = AbortSignal.timeout(CALL_MS)
  try {
    return await work(AbortSignal.any([signal, limit]))
  } catch (error) {
    signal.throwIfAborted()
    if (limit.aborted) throw new NotExported(code, `the server did not answer within ${CALL_MS} ms`, error)
    const { name, message, $metadata } = error as Error & { $metadata?: { httpStatusCode?: number } }
    const status = $metadata?.httpStatusCode
    // Without a status, no server has answered, and the message may contain its address.
    throw new NotExported(
      code,
      status === undefined ? `there was no usable answer (${(error as NodeJS.ErrnoException).code ?? name})` : `${name}: ${message} (${status})`,
      error,
    )
  }
}

const clean = (text: string): string =>
  text
    .replaceAll(/\p{Cc}+/gu, ' ')
    .toWellFormed()
    .slice(0, MAX_MESSAGE)
