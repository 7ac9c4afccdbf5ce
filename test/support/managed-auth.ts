// A client of managed auth: creates connections, drives logins by submitting what they ask for, and starts health checks.
import type Kernel from '@onkernel/sdk'
import type { Connection } from '../../src/control/logins/auth-connections/contract.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'

/** The limit for a login at a real application, with everything that it loads, on a busy machine. */
const LOGIN_MS = 120_000

type Field = NonNullable<Connection['fields']>[number]
type Choice = NonNullable<Connection['choices']>[number]

/** A person's answers: a value for a field, or undefined when there is none, and one of several choices. */
export interface Person {
  value: (field: Field) => string | undefined
  choose?: (choices: readonly Choice[]) => Choice | undefined
}

/** Answers fields with the user's value of the same name. */
export function personOf(user: Record<string, string>, code?: (field: Field) => string): Person {
  const known = (key: string) => user[key]
  return {
    value(field) {
      if (field.type === 'password') return user.password
      if (field.type === 'code' || field.type === 'totp_code') return code?.(field)
      const exact = known(field.ref) ?? Object.entries(user).find(([key]) => field.ref.includes(key) || field.label.toLowerCase().includes(key))?.[1]
      return exact ?? (field.type === 'identifier' ? (user.username ?? user.email ?? user.user) : undefined)
    },
  }
}

export interface Shown extends Omit<Connection, 'profile_name'> {
  profile_name: string
}

export const shown = async (cloud: Cloud, id: string): Promise<Shown> => (await cloud.client.auth.connections.retrieve(id)) as unknown as Shown

/** Drives the present login until it has ended, answering at most `most` questions. Returns the final connection, and the questions. */
export async function driven(
  cloud: Cloud,
  id: string,
  person: Person,
  most = 8,
): Promise<{ end: Shown; asked: { fields: string[]; choices: string[]; error: string | null }[] }> {
  const { connections } = cloud.client.auth
  const asked: { fields: string[]; choices: string[]; error: string | null }[] = []
  const answered = new Set<string>()
  const end = await until(
    'the end of a login',
    LOGIN_MS,
    async () => {
      const now = await shown(cloud, id)
      if (now.flow_status !== 'IN_PROGRESS') {
        if (now.flow_status !== 'SUCCESS') console.log(now.domain, now.flow_status, now.error_code, now.error_message, now.website_error)
        return now
      }
      if (now.flow_step !== 'AWAITING_INPUT' || now.interaction_id === null || answered.has(now.interaction_id)) return undefined
      answered.add(now.interaction_id)
      asked.push({ fields: (now.fields ?? []).map(({ ref }) => ref), choices: (now.choices ?? []).map(({ label }) => label), error: now.website_error })
      if (asked.length > most) throw new Error(`more than ${most} questions: ${JSON.stringify(asked)}`)
      const values = (now.fields ?? []).flatMap((field) => {
        const value = person.value(field)
        return value === undefined ? [] : [[field.id, value] as const]
      })
      const choice = values.length === 0 ? (person.choose ?? (([first]) => first))(now.choices ?? []) : undefined
      if (values.length === 0 && !choice) throw new Error(`nothing to answer: ${JSON.stringify({ fields: now.fields, choices: now.choices })}`)
      await connections.submit(
        id,
        (choice ? { selected_choice_id: choice.id } : { field_values: Object.fromEntries(values) }) as Kernel.Auth.ConnectionSubmitParams,
      )
      return undefined
    },
    { everyMs: 150 },
  )
  return { end, asked }
}

/** Makes a connection's health check due now, and waits for its result. */
export async function checkNow(cloud: Cloud, id: string): Promise<Kernel.Auth.ManagedAuthTimelineEvent> {
  const before = new Set((await timeline(cloud, id, 'health_check')).map((item) => item.id))
  await cloud.query('update auth_connections set next_check_at = now() where id = $1', [id])
  return until(
    'a health check',
    LOGIN_MS,
    async () => (await timeline(cloud, id, 'health_check')).find((item) => !before.has(item.id) && item.status !== 'IN_PROGRESS'),
    { everyMs: 200 },
  )
}

export async function timeline(cloud: Cloud, id: string, type?: 'login' | 'reauth' | 'health_check'): Promise<Kernel.Auth.ManagedAuthTimelineEvent[]> {
  return (await cloud.client.auth.connections.timeline(id, { ...(type && { type }), limit: 100 })).getPaginatedItems()
}
