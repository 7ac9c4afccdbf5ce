// The tables of people and their sign-ins as types. The schema explains the columns (migrations/0001-schema.sql).
import type { ColumnType, Generated } from 'kysely'
import type { DefaultTime, Time } from './columns.ts'

export interface PeopleTables {
  people: {
    id: string
    issuer: string | null
    subject: string | null
    email: string | null
    name: string | null
    invited_by: string | null
    created_at: DefaultTime
    signed_in_at: Time | null
  }
  memberships: {
    person_id: string
    /** null means all projects. */
    project_id: string | null
    role: string
    by_settings: Generated<boolean>
    created_at: DefaultTime
  }
  web_sessions: {
    id: string
    hash: Buffer
    key_id: string | null
    person_id: string | null
    created_at: DefaultTime
    expires_at: Time
  }
  oauth_clients: {
    id: string
    name: string
    redirect_uris: string[]
    created_at: DefaultTime
  }
  oauth_grants: {
    id: string
    client_id: string
    key_id: string | null
    person_id: string | null
    project_id: string | null
    looks_only: Generated<boolean>
    scope: string[]
    created_at: DefaultTime
    expires_at: Time
  }
  oauth_tokens: {
    hash: Buffer
    grant_id: string
    kind: string
    redirect_uri: string | null
    challenge: string | null
    created_at: DefaultTime
    expires_at: Time
    used_at: ColumnType<Date | null, never, Date | string>
  }
}
