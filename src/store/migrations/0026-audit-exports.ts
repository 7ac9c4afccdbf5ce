// Destinations to which the audit log is exported, and what each of them has not got yet.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table audit_log_destinations (
      id text primary key,
      bucket text not null,
      prefix text not null,                        -- of all keys; empty: none
      region text not null,
      role_arn text not null,                      -- empty: the credentials of the service itself
      kms_key_id text,
      external_id text not null,                   -- shown when the role is assumed
      status text not null default 'paused',       -- paused | active
      active tstzmultirange not null default '{}', -- when it was active: entries of requests that came then are exported
      version integer not null default 0,          -- counts the changes by callers
      consecutive_failures integer not null default 0,
      last_error text,
      last_error_at timestamptz,
      last_exported_cursor text,                   -- the last entry of the last object
      last_success_at timestamptz,
      next_attempt_at timestamptz,                 -- not before; null: in the next round
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db)
  // Written in the statement that stores an entry, removed when an object has it. No foreign keys: storing the log must not wait for a destination.
  await sql`
    create table audit_log_undelivered (
      destination_id text not null,
      at timestamptz(3) not null,
      event_id text not null,
      primary key (destination_id, at, event_id)
    )`.execute(db)
}
