// The command line of a sandbox.
import { expect, test } from 'vitest'
import { descriptorLimit } from '../../http/connections.ts'
import { enclosed } from './sandbox.ts'

test('the open files of each process are limited, never to more than the service may have', () => {
  const seen = { code: '/code', etc: '/etc', memory: '/memory' }
  const command = enclosed(seen, { pasta: [], setup: () => '' } as never, { memoryBytes: 1, pids: 100, fileBytes: undefined, nice: 0 }, '', [], ['sh'])
  const files = Math.min(descriptorLimit(), 65_536)
  expect(command).toContain(`--nofile=${files}:${files}`)
})
