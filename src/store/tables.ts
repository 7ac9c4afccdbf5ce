// The tables as types. The schema explains the columns (migrations/0001-schema.sql).
import type { ColumnType, Generated } from 'kysely'
import type { DefaultTime, Json, Time } from './columns.ts'
import type { LoginTables } from './tables-logins.ts'
import type { PeopleTables } from './tables-people.ts'

/** The result of saving a session's profile. */
export interface ProfileEnd {
  /** `in_part`: without data that Chromium had not written yet; `not`: there is no version of this session. */
  saved: 'whole' | 'in_part' | 'not'
  version_id?: string
  /** For people: the reason, and another session that has saved the same profile meanwhile. */
  message: string
}

export interface Tables extends LoginTables, PeopleTables {
  leases: {
    scope: string
    duty: string
    replica: string
    until: Time
  }
  projects: {
    id: string
    name: string
    status: Generated<string>
    created_at: DefaultTime
    updated_at: DefaultTime
    max_concurrent_sessions: Generated<number | null>
    max_concurrent_invocations: Generated<number | null>
  }
  /** One row. */
  org_limits: {
    only_row: Generated<boolean>
    default_project_max_concurrent_sessions: Generated<number | null>
  }
  api_keys: {
    id: string
    name: string
    hash: Buffer
    masked: string
    scope: Generated<string>
    deployment_id: string | null
    /** The only project for which it may be used; null means all. */
    project_id: string | null
    created_at: DefaultTime
    expires_at: Time | null
    /** The expiry at its creation; a rotation may have shortened it. */
    lifetime_seconds: number | null
    /** The id of the key that created it; null when the service did. */
    created_by: string | null
    /** The setting that makes it valid at each start; null when callers created it. */
    setting: string | null
    deleted_at: Time | null
  }
  audit_log: {
    at: Time
    event_id: string
    project_id: string | null
    method: string
    path: string
    route: string
    status: number
    duration_ms: number
    domain: string
    client_ip: string
    user_agent: string
    auth_strategy: string
    user_id: string
    /** null unless a person made the request. */
    email: string | null
  }
  audit_log_destinations: {
    id: string
    bucket: string
    prefix: string
    region: string
    role_arn: string
    kms_key_id: string | null
    external_id: string
    status: Generated<string>
    /** Its active times, as a multirange. */
    active: Generated<string>
    version: Generated<number>
    consecutive_failures: Generated<number>
    last_error: string | null
    last_error_at: Time | null
    last_exported_cursor: string | null
    last_success_at: Time | null
    next_attempt_at: Time | null
    created_at: DefaultTime
    updated_at: DefaultTime
    deleted_at: Time | null
  }
  /** Entries of the audit log that a destination has not received yet. */
  audit_log_undelivered: {
    destination_id: string
    at: Time
    event_id: string
  }
  browsers: {
    id: string
    state: string
    scope: string
    project_id: string | null
    warm_kind: string | null
    name: string | null
    tags: Json<Record<string, string>>
    options: Json<object>
    endpoint: Json<object> | null
    timeout_seconds: number
    made_at: DefaultTime
    created_at: Time | null
    last_active_at: Time | null
    deleted_at: Time | null
    end_reason: string | null
    invocation_id: string | null
    ended_steps: Generated<string[]>
    replica: string | null
    profile_id: string | null
    profile_save: Generated<boolean>
    profile_base: number | null
    profile_end: ColumnType<ProfileEnd | null, string | null | undefined, string | null>
    pool_id: string | null
    pool_generation: number | null
    pool_baseline: ColumnType<object | null, string | null | undefined, string | null>
    /** The number of its acquisition from its pool, 0 before the first. Not a lease of a replica (leases.ts). */
    lease: Generated<number>
    profile_version: string | null
    auth_flow_id: string | null
    proxy_replica: string | null
  }
  browser_pools: {
    id: string
    scope: string
    project_id: string | null
    name: string | null
    size: number
    config: Json<object>
    chrome_policy: ColumnType<Record<string, unknown> | null, string | null | undefined, string | null>
    resolved: Json<object>
    problem: string | null
    generation: Generated<number>
    oldest: Generated<number>
    is_forced: Generated<boolean>
    discarded: Generated<number>
    created_at: DefaultTime
    deleted_at: Time | null
  }
  browser_events: {
    id: Generated<number>
    browser_id: string
    at: DefaultTime
    state: string
    reason: string | null
  }
  deployments: {
    id: string
    scope: string
    project_id: string | null
    state: string
    status_reason: string | null
    app_name: string | null
    app_version: string | null
    region: string
    entrypoint_rel_path: string | null
    env_keys: Json<string[]>
    secrets: Buffer | null
    force: Generated<boolean>
    archive: string | null
    code_key: string | null
    code_bytes: number | null
    source_type: string | null
    source_url: string | null
    source_ref: string | null
    source_path: string | null
    source_checksum: string | null
    attempts: Generated<number>
    sandbox_id: string | null
    log_bytes: Generated<number>
    runner_seq: Generated<number>
    created_at: DefaultTime
    updated_at: DefaultTime
    finished_at: Time | null
    deletion: Generated<string>
    deleted_at: Time | null
  }
  app_versions: {
    id: string
    project_id: string | null
    app_name: string
    version: string
    deployment_id: string
    actions: Json<{ name: string }[]>
    created_at: DefaultTime
  }
  invocations: {
    id: string
    project_id: string | null
    state: string
    status_reason: string | null
    deployment_id: string
    app_name: string
    version: string
    action_name: string
    payload: string | null
    output: string | null
    is_async: boolean
    timeout_seconds: number
    caller: string
    request_hash: Buffer
    runner_id: string | null
    runner_seq: Generated<number>
    replica: string | null
    started_at: DefaultTime
    finished_at: Time | null
  }
  app_events: {
    id: Generated<number>
    deployment_id: string
    invocation_id: string | null
    at: DefaultTime
    kind: string
    state: string | null
    reason: string | null
    line: string | null
    data: ColumnType<object | null, string | null, never>
  }
  extensions: {
    id: string
    project_id: string
    scope: string
    name: string | null
    object: string
    size_bytes: number
    checksum: string
    by_policy: boolean
    created_at: DefaultTime
    last_used_at: ColumnType<Date | null, never, Date | string>
  }
  proxies: {
    id: string
    project_id: string | null
    name: string | null
    type: string
    protocol: string
    config: Json<object>
    secrets: Buffer | null
    bypass_hosts: string[]
    status: string | null
    ip_address: string | null
    last_checked: Time | null
    created_at: DefaultTime
    deleted_at: Time | null
  }
  replays: {
    id: string
    state: string
    browser_id: string
    framerate: number
    max_duration_seconds: number | null
    record_audio: boolean
    object: string
    made_at: DefaultTime
    started_at: Time | null
    clock_started_at: number | null
    finished_at: Time | null
    end_reason: string | null
    ready_at: Time | null
    bytes: Generated<number>
    head_bytes: Generated<number>
    activity: ColumnType<number[], string | undefined, string>
  }
  profiles: {
    id: string
    project_id: string | null
    name: string | null
    version_id: string | null
    created_at: DefaultTime
    updated_at: Time | null
    last_used_at: Time | null
    deleted_at: Time | null
  }
  profile_versions: {
    id: string
    profile_id: string
    number: Generated<number>
    scope: string
    object: string
    bytes: number
    sha256: string
    chromium: string | null
    session_id: string
    is_whole: boolean
    created_at: DefaultTime
  }
  telemetry_segments: {
    session_id: string
    first_seq: number
    last_seq: number
    first_ts: number
    last_ts: number
    events: number
    types: number
    bytes: number
    data: Buffer | null
    scope: string | null
    object: string | null
    created_at: DefaultTime
  }
  telemetry_destinations: {
    id: string
    name: string
    endpoint: string
    description: string | null
    header_names: string[]
    headers: Buffer | null
    consecutive_failures: Generated<number>
    last_error: string | null
    last_error_at: Time | null
    last_export_at: Time | null
    next_attempt_at: Time | null
    created_at: DefaultTime
    updated_at: DefaultTime
    deleted_at: Time | null
  }
  /** Times in which a session's telemetry goes to a destination. A trigger on `browsers` writes them. */
  telemetry_exports: {
    id: Generated<number>
    session_id: string
    destination_id: string
    from_ts: number
    until_ts: number | null
    is_kept: boolean
    last_seq: Generated<number>
    finished_at: Time | null
  }
  replay_events: {
    id: Generated<number>
    replay_id: string
    at: DefaultTime
    state: string
    reason: string | null
  }
}
