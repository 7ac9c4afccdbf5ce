// The contract of the audit log's export destinations.
import * as z from 'zod'
import { json, none, page, pagingQuery, route } from '../../../../http/route.ts'
import { Time } from '../../../apps/apps/contract.ts'

const group = 'Audit log exports'

/** A bucket's name, and not the ARN of an access point, which uses another server. */
const Bucket = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket: 3 to 63 lower-case letters, digits, "." and "-"')
  .refine((name) => !/\.\.|^\d+\.\d+\.\d+\.\d+$/.test(name), 'must be the name of a bucket, with no ".." and not an IP address')

const MAX_PREFIX = 512
/** All keys begin with it and a `/`. Slashes at its ends are removed. Empty: keys begin with `destination_id=`. */
const Prefix = z
  .string()
  .max(MAX_PREFIX)
  .transform((prefix) => prefix.replace(/^\/+|\/+$/g, ''))
  .refine(
    (prefix) => prefix === '' || prefix.split('/').every((part) => /^[\w!.*'()=+@:,-]+$/.test(part) && !/^\.\.?$/.test(part)),
    `must be letters, digits and any of !-_.*'()=+@:, in segments joined by "/"`,
  )

const Region = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a region, such as "eu-west-1"')

/** Empty: the service writes with its own credentials. */
const RoleArn = z
  .string()
  .max(2048)
  .regex(/^(arn:[\w-]+:iam:[\w-]*:[\w-]*:role\/[\w+=,.@/-]+)?$/, 'must be the ARN of a role, such as "arn:aws:iam::123456789012:role/name", or empty')

/** A key id, an ARN or an alias. Empty: none. */
const KmsKeyId = z
  .string()
  .max(2048)
  .regex(/^[\w:/.@+=-]*$/, 'must be the id, ARN or alias of a key, or empty')

const Status = z.enum(['active', 'paused'])

export const ExportDestination = z.object({
  id: z.string(),
  type: z.enum(['s3']),
  format: z.enum(['jsonl.gz']),
  bucket: z.string(),
  prefix: z.string(),
  region: z.string(),
  role_arn: z.string(),
  kms_key_id: z.string().optional(),
  /** The condition `sts:ExternalId` of the role's trust policy. */
  external_id: z.string(),
  /** The principal of the role's trust policy, if the operator has named it; else empty. */
  kernel_role_arn: z.string(),
  status: Status,
  consecutive_failures: z.int(),
  last_error: z.string().optional(),
  last_error_at: Time.optional(),
  /** The last entry of the last object. */
  last_exported_cursor: z.string().optional(),
  last_success_at: Time.optional(),
  /** Time of the next attempt after a failure. */
  next_attempt_at: Time.optional(),
  created_at: Time,
  updated_at: Time,
})
export type ExportDestination = z.output<typeof ExportDestination>

const Create = z.strictObject({
  type: z.literal('s3'),
  format: z.literal('jsonl.gz'),
  bucket: Bucket,
  prefix: Prefix,
  region: Region,
  role_arn: RoleArn,
  kms_key_id: KmsKeyId.optional(),
})
export type CreateDestination = z.output<typeof Create>

const Update = z.strictObject({
  bucket: Bucket.optional(),
  prefix: Prefix.optional(),
  region: Region.optional(),
  role_arn: RoleArn.optional(),
  /** Empty removes it. */
  kms_key_id: KmsKeyId.optional(),
  status: Status.optional(),
})
export type UpdateDestination = z.output<typeof Update>

/** The step that failed. */
const Code = z.enum(['assume_role_failed', 'put_object_failed'])

export const TestResult = z.object({
  /** The step where the test ended. */
  stage: z.enum(['assume_role', 'put_object', 'complete']),
  success: z.boolean(),
  error: z.object({ code: Code, message: z.string() }).optional(),
})
export type DestinationTest = z.output<typeof TestResult>

const PATH = '/audit-logs/export/destinations'
const params = z.strictObject({ id: z.string().min(1) })

export const auditExports = {
  createAuditLogExportDestination: route({
    method: 'POST',
    path: PATH,
    id: 'createAuditLogExportDestination',
    right: 'own',
    group,
    summary: 'Create a destination for the audit log; it is paused',
    body: Create,
    reply: json(ExportDestination, 201),
    faults: ['forbidden', 'conflict'],
  }),
  listAuditLogExportDestinations: route({
    method: 'GET',
    path: PATH,
    id: 'listAuditLogExportDestinations',
    right: 'own',
    group,
    summary: 'List destinations of the audit log, newest first',
    query: z.strictObject(pagingQuery),
    reply: page(ExportDestination),
    faults: ['forbidden'],
  }),
  getAuditLogExportDestination: route({
    method: 'GET',
    path: `${PATH}/{id}`,
    id: 'getAuditLogExportDestination',
    right: 'own',
    group,
    summary: 'Get a destination of the audit log',
    params,
    reply: json(ExportDestination),
    faults: ['forbidden', 'not_found'],
  }),
  updateAuditLogExportDestination: route({
    method: 'PATCH',
    path: `${PATH}/{id}`,
    id: 'updateAuditLogExportDestination',
    right: 'own',
    group,
    summary: 'Change, activate or pause a destination of the audit log',
    params,
    body: Update,
    reply: json(ExportDestination),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
  deleteAuditLogExportDestination: route({
    method: 'DELETE',
    path: `${PATH}/{id}`,
    id: 'deleteAuditLogExportDestination',
    right: 'own',
    group,
    summary: 'Delete a destination of the audit log; objects that it has stay',
    params,
    reply: none(),
    faults: ['forbidden', 'not_found'],
  }),
  testAuditLogExportDestination: route({
    method: 'POST',
    path: `${PATH}/{id}/test`,
    id: 'testAuditLogExportDestination',
    right: 'own',
    group,
    summary: 'Assume the role of a destination and write an object, now',
    params,
    reply: json(TestResult),
    faults: ['forbidden', 'not_found', 'too_many_requests'],
  }),
}
