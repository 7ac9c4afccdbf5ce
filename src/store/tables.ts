// The tables as types. What the columns mean is said in the migrations.
import type { ColumnType, Generated, JSONColumnType } from 'kysely'

type Json<T extends object | null> = JSONColumnType<T, string, string>
type Time = ColumnType<Date, Date | string, Date | string>
type DefaultTime = ColumnType<Date, Date | string | undefined, Date | string>

export interface Tables {
  api_keys: {
    id: string
    name: string
    hash: Buffer
    masked: string
    created_at: DefaultTime
    deleted_at: Time | null
  }
  browsers: {
    id: string
    state: string
    host: string
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
    state: string
    status_reason: string | null
    app_name: string | null
    app_version: string | null
    region: string
    entrypoint_rel_path: string | null
    env_keys: Json<string[]>
    source_type: string | null
    source_url: string | null
    source_ref: string | null
    source_path: string | null
    source_checksum: string | null
    created_at: DefaultTime
    updated_at: DefaultTime
  }
  deployment_events: {
    id: Generated<number>
    deployment_id: string
    at: DefaultTime
    state: string
    reason: string | null
  }
}
