// The published SDK with a running service: projects and limits. Every answer is checked against the contract.
import { ConflictError, NotFoundError, RateLimitError } from '@onkernel/sdk'
import { expect, test } from 'vitest'
import { startCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'

const cloud = forTests(() => startCloud({ COB_WARM_BROWSERS: '1', COB_MAX_BROWSERS: '3' }))

/** A client that sends the header of a project. */
const inProject = (project: string) => cloud.client.withOptions({ maxRetries: 0, defaultHeaders: { 'X-Kernel-Project-Id': project } })

const all = async <T>(pages: AsyncIterable<T>): Promise<T[]> => {
  const items: T[] = []
  for await (const item of pages) items.push(item)
  return items
}

test('projects are created, listed, found, renamed, archived and deleted', async () => {
  const { client } = cloud
  const made = await client.projects.create({ name: 'Staging' })
  conforms('Project', made)
  expect(made).toMatchObject({ name: 'Staging', status: 'active' })
  await expect(client.projects.create({ name: 'staging' })).rejects.toBeInstanceOf(ConflictError)
  const others = await Promise.all(['p1', 'p2', 'p3'].map((name) => client.projects.create({ name })))
  const listed = await all(client.projects.list({ limit: 2 }))
  conforms('Project', listed, true)
  expect(listed.map(({ name }) => name).toSorted()).toEqual(['Default', 'Staging', 'p1', 'p2', 'p3'])
  expect((await all(client.projects.list({ name: 'STAGING' }))).map(({ id }) => id)).toEqual([made.id])
  expect((await all(client.projects.list({ query: 'P' }))).map(({ name }) => name).toSorted()).toEqual(['p1', 'p2', 'p3'])
  for (const called of [made.id, 'staging']) expect(await client.projects.retrieve(called)).toEqual(made)
  const renamed = await client.projects.update(made.id, { name: 'Ready' })
  conforms('Project', renamed)
  expect(renamed).toMatchObject({ id: made.id, name: 'Ready', status: 'active' })
  expect(await client.projects.update('Ready', { status: 'archived' })).toMatchObject({ id: made.id, status: 'archived' })
  await expect(inProject(made.id).browsers.list()).rejects.toMatchObject({ status: 404, error: { code: 'project_not_found' } })
  for (const { id } of [made, ...others]) await client.projects.delete(id)
  await expect(client.projects.retrieve(made.id)).rejects.toBeInstanceOf(NotFoundError)
  expect((await all(client.projects.list())).map(({ name }) => name)).toEqual(['Default'])
  await expect(client.projects.delete('Default')).rejects.toMatchObject({ status: 409, error: { code: 'last_active_project' } })
})

test('limits: of a project, of the organization; a project with a browser is not deleted', async () => {
  const { client } = cloud
  const org = await client.organization.limits.retrieve()
  conforms('OrgLimits', org)
  expect(org).toMatchObject({ max_concurrent_sessions: 3, default_project_max_concurrent_sessions: null })
  const changed = await client.organization.limits.update({ default_project_max_concurrent_sessions: 1 })
  conforms('OrgLimits', changed)
  expect(changed.default_project_max_concurrent_sessions).toBe(1)
  await expect(client.organization.limits.update({ default_project_max_concurrent_sessions: 4 })).rejects.toMatchObject({ status: 400 })

  const { id } = await client.projects.create({ name: 'Limited' })
  const none = await client.projects.limits.retrieve(id)
  conforms('ProjectLimits', none)
  expect(none).toEqual({ max_concurrent_sessions: null, max_concurrent_invocations: null, max_pooled_sessions: null })
  const team = inProject(id)
  const first = await team.browsers.create()
  await expect(team.browsers.create()).rejects.toBeInstanceOf(RateLimitError)
  const own = await client.projects.limits.update(id, { max_concurrent_sessions: 2, max_concurrent_invocations: 5 })
  conforms('ProjectLimits', own)
  expect(own).toMatchObject({ max_concurrent_sessions: 2, max_concurrent_invocations: 5 })
  await expect(client.projects.limits.update(id, { max_pooled_sessions: 1 })).rejects.toMatchObject({ status: 400 })
  const second = await team.browsers.create()
  await expect(team.browsers.create()).rejects.toBeInstanceOf(RateLimitError)
  await expect(client.projects.delete(id)).rejects.toMatchObject({ status: 409, error: { code: 'project_not_empty' } })
  for (const { session_id } of [first, second]) await team.browsers.deleteByID(session_id)
  await client.projects.delete(id)
  expect((await client.organization.limits.update({ default_project_max_concurrent_sessions: 0 })).default_project_max_concurrent_sessions).toBeNull()
})
