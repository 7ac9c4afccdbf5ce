// The tables of credentials and logins as types. The schema explains the columns (migrations/0001-schema.sql).
import type { ColumnType, Generated } from 'kysely'
import type { DefaultTime, Json, Time } from './columns.ts'

/** How codes are derived from a credential's TOTP secret. */
export interface TotpSettings {
  algorithm: 'SHA1' | 'SHA256' | 'SHA512'
  digits: number
  period: number
}

export interface LoginTables {
  credentials: {
    id: string
    project_id: string
    name: string
    domain: string
    sso_provider: string | null
    value_keys: string[]
    sealed: Buffer
    secrets_version: Generated<number>
    totp: ColumnType<TotpSettings | null, string | null, string | null>
    created_at: DefaultTime
    updated_at: DefaultTime
  }
  credential_providers: {
    id: string
    name: string
    provider_type: string
    token: Buffer
    cache_ttl_seconds: number
    enabled: Generated<boolean>
    priority: Generated<number>
    version: Generated<number>
    created_at: DefaultTime
    updated_at: DefaultTime
  }
  auth_connections: {
    id: string
    scope: string
    project_id: string
    profile_id: string
    domain: string
    login_url: string | null
    allowed_domains: ColumnType<string[], string[] | undefined, string[]>
    auto_reauth: boolean
    health_checks: boolean
    health_check_seconds: number
    record_session: boolean
    save_credentials: boolean
    credential_id: string | null
    provider_id: string | null
    provider_path: string | null
    proxy_id: string | null
    browser: Json<object>
    status: Generated<string>
    checked_at: Time | null
    post_login_url: string | null
    landing: ColumnType<Buffer | null, Buffer | null | undefined, Buffer | null>
    by_project_key: Generated<boolean>
    learned: ColumnType<object | null, string | null | undefined, string | null>
    next_check_at: Time | null
    checks: ColumnType<object, string | undefined, string>
    version: Generated<number>
    created_at: DefaultTime
    updated_at: DefaultTime
  }
  auth_flows: {
    id: string
    connection_id: string
    scope: string
    type: string
    state: string
    step: string
    asked: ColumnType<object, string | undefined, string>
    memory: ColumnType<object, string | undefined, string>
    pause: ColumnType<object | null, string | null | undefined, string | null>
    answer: Buffer | null
    typed: Buffer | null
    browser_id: string | null
    replay_id: string | null
    telemetry_captured: Generated<boolean>
    error_code: string | null
    error_message: string | null
    website_error: string | null
    post_login_url: string | null
    landing: ColumnType<Buffer | null, Buffer | null | undefined, Buffer | null>
    previous_status: string | null
    code_hash: Buffer | null
    code_used_at: Time | null
    replica: string | null
    started_at: DefaultTime
    updated_at: DefaultTime
    expires_at: Time
    input_until: Time | null
    finished_at: Time | null
  }
  auth_flow_events: {
    id: Generated<number>
    flow_id: string
    at: DefaultTime
    state: string
    reason: string | null
  }
}
