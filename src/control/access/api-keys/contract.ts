// The contract of the API keys group.
import * as z from 'zod'
import { json, none, page, pagingQuery, queryBoolean, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'API keys'

/** Longest lifetime of a new key, and longest time for which a rotated key stays valid, in days. */
export const MAX_DAYS = 3650
export const GRACE_DAYS = 7

const MAX_NAME = 255
const Name = z
  .string()
  .refine((name) => name !== '' && Array.from(name).length <= MAX_NAME, `expected 1 to ${MAX_NAME} characters`)
  .meta({ minLength: 1, maxLength: MAX_NAME })

export const ApiKey = z.object({
  id: z.string(),
  name: z.string(),
  masked_key: z.string(),
  /** The key that made this one; a key of the service's settings names itself. The address is a placeholder that no mail reaches. */
  created_by: z.object({ id: z.string(), email: z.string(), name: z.string().nullable() }),
  created_at: Time,
  expires_at: Time.nullable(),
  deleted_at: Time.nullable(),
  /** The only project that it may be used for; null: all. */
  project_id: z.string().nullable(),
  project_name: z.string().nullable(),
})
export type ApiKey = z.output<typeof ApiKey>

/** Includes the key itself, which is shown only in this answer. */
const CreatedApiKey = ApiKey.extend({ key: z.string() })
export type CreatedApiKey = z.output<typeof CreatedApiKey>

const DaysToExpire = z.number().int().min(1).max(MAX_DAYS).optional()

const Create = z
  .strictObject({
    name: Name,
    /** Absent or null: it never expires. A project's key cannot make one that expires later than itself. */
    days_to_expire: DaysToExpire,
    /** The expiry time, instead of days_to_expire. */
    expires_at: z.iso.datetime({ offset: true }).optional(),
    /** Absent or null: it may be used for all projects. */
    project_id: z.string().min(1).max(255).optional(),
  })
  .refine((body) => body.days_to_expire === undefined || body.expires_at === undefined, {
    path: ['expires_at'],
    error: 'cannot be given together with days_to_expire',
  })
export type Create = z.output<typeof Create>

const Rotate = z.strictObject({
  /** Absent: the lifetime with which the rotated key was made. The new key cannot outlive the project's key that makes it. */
  days_to_expire: DaysToExpire,
  /** Days until the rotated key expires; 0: now. Absent: GRACE_DAYS, or the lifetime of the new key if that is shorter. */
  expire_in_days: z.number().int().min(0).max(MAX_DAYS).optional(),
})
export type Rotate = z.output<typeof Rotate>

const List = z.strictObject({
  ...pagingQuery,
  /** Keys that have expired count as active. Without this field, `include_deleted` asks for all. */
  status: z.enum(['active', 'deleted', 'all']).optional(),
  include_deleted: queryBoolean.optional(),
  /** A whole name, in any case and with or without accents. */
  name: z.string().max(1024).optional(),
  /** Part of a name, of the creator's or of the project's; or the beginning of an id or of a masked key. */
  query: z.string().max(1024).optional(),
  /** A key that never expires comes after all others. */
  sort_by: z.enum(['created_at', 'name', 'expires_at']).default('created_at'),
  /** By default newest first; names and times of expiry in ascending order. */
  sort_direction: z.enum(['asc', 'desc']).optional(),
})
export type List = z.output<typeof List>

const params = z.strictObject({ id: z.string().min(1) })

export const apiKeys = {
  createApiKey: route({
    method: 'POST',
    path: '/org/api_keys',
    id: 'createApiKey',
    right: 'own',
    group,
    summary: 'Create an API key; the answer is the only one that holds it',
    body: Create,
    reply: json(CreatedApiKey, 201),
  }),
  listApiKeys: route({
    method: 'GET',
    path: '/org/api_keys',
    id: 'listApiKeys',
    right: 'own',
    group,
    summary: 'List API keys',
    query: List,
    reply: page(ApiKey),
  }),
  getApiKey: route({
    method: 'GET',
    path: '/org/api_keys/{id}',
    id: 'getApiKey',
    right: 'own',
    group,
    summary: 'Get an API key',
    params,
    query: z.strictObject({ include_deleted: queryBoolean.default(false) }),
    reply: json(ApiKey),
    faults: ['not_found'],
  }),
  updateApiKey: route({
    method: 'PATCH',
    path: '/org/api_keys/{id}',
    id: 'updateApiKey',
    right: 'own',
    group,
    summary: 'Rename an API key',
    params,
    body: z.strictObject({ name: Name }),
    reply: json(ApiKey),
    faults: ['not_found'],
  }),
  deleteApiKey: route({
    method: 'DELETE',
    path: '/org/api_keys/{id}',
    id: 'deleteApiKey',
    right: 'own',
    group,
    summary: 'Delete an API key, and end what it has begun',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  rotateApiKey: route({
    method: 'POST',
    path: '/org/api_keys/{id}/rotate',
    id: 'rotateApiKey',
    right: 'own',
    group,
    summary: 'Create a key with the same name and project, and let the old one expire after a while',
    params,
    body: Rotate,
    bodyOptional: true,
    reply: json(CreatedApiKey, 201),
    faults: ['not_found'],
  }),
}
