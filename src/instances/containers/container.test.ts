// Why a container has ended, over an engine that reports it late.
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { silentLog } from '../../base/log.ts'
import type { Exit } from '../driver.ts'
import { ContainerInstance } from './container.ts'
import type { Engine } from './engine.ts'

/** An adopted container whose program does not answer any more. The engine gives these answers one after the other, and repeats the last. */
async function ended(noticesMs: number, ...answers: (Exit | undefined)[]): Promise<Exit> {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const engine = { noticesMs, whyEnded: async () => (answers.length > 1 ? answers.shift() : answers[0]) } as Partial<Engine> as Engine
  const instance = new ContainerInstance(
    'browser',
    'one',
    { host: '127.0.0.1', port: await freePort() },
    { engine, log: silentLog, signal: stop.signal, failedEnds: new Set() },
  )
  await instance.adopted()
  return await instance.exited
}

test('a reason that the engine knows only later is waited for: a node that has died, a container without memory', async () => {
  const lost: Exit = { reason: 'its node does not answer', cause: 'node_lost' }
  expect(await ended(5_000, undefined, undefined, lost)).toEqual(lost)
  const full: Exit = { reason: 'no memory', limit: 'memory' }
  expect(await ended(5_000, undefined, full)).toEqual(full)
})

test('what the engine never learns ends as what was seen of it', async () => {
  expect(await ended(200, undefined)).toEqual({ reason: expect.stringMatching(/ECONNREFUSED.*; as far as the engine knows, its container still runs$/) })
})
