// The lifecycles of the control plane: every state has a path to an end state.
import { describe, expect, test } from 'vitest'
import type { Lifecycle } from '../../../base/lifecycle.ts'
import { deletionLifecycle, deploymentLifecycle } from '../../apps/deployments/lifecycle.ts'
import { invocationLifecycle } from '../../apps/invocations/lifecycle.ts'
import { replayLifecycle } from '../replays/lifecycle.ts'
import { browserLifecycle } from './lifecycle.ts'

describe.each([
  { name: 'browsers', table: browserLifecycle, first: 'starting', last: ['deleted'] },
  { name: 'deployments', table: deploymentLifecycle, first: 'queued', last: ['failed', 'stopped'] },
  { name: 'deletions of deployments', table: deletionLifecycle, first: 'kept', last: ['deleted'] },
  { name: 'invocations', table: invocationLifecycle, first: 'queued', last: ['failed', 'succeeded'] },
  { name: 'replays', table: replayLifecycle, first: 'starting', last: ['ready'] },
])('the lifecycle of $name', ({ table, first, last }) => {
  const { states, allows, isTerminal } = table as Lifecycle<string>

  test(`ends in ${last.join(' or ')} and in no other state`, () => {
    expect(states.filter(isTerminal).toSorted()).toEqual(last)
  })

  test(`leads from "${first}" to every state, and from every state to a final one`, () => {
    const reached = (start: string): string[] => {
      const found = new Set([start])
      for (const state of found) for (const to of states) if (allows(state, to)) found.add(to)
      return [...found]
    }
    expect(reached(first).toSorted()).toEqual(states.toSorted())
    for (const state of states) expect(reached(state).some(isTerminal)).toBe(true)
  })
})
