// Starts that an engine carries out after the service has given them up, and engines that cannot be reached.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../test/support/free-port.ts'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { sleep, until } from '../../base/wait.ts'
import { dockerEngine } from '../docker/docker.ts'
import { EngineAway } from '../driver.ts'
import { kubernetesEngine } from '../kubernetes/kubernetes.ts'
import type { ContainerKind, Engine } from './engine.ts'
import { startContainer, type Sealed } from './guest.ts'

const sealed: Sealed = { note: () => '', opened: () => undefined }
const wanted = { id: 'late', kind: 'app' as const, args: [], env: {}, folders: [], limits: { memoryBytes: 1, pids: 1, cpuPercent: 1 }, reaches: [] }

/** An engine that does not answer calls to start a container, and carries them out later. Removing fails as long as it is `isAway`. */
function slowEngine() {
  const containers = new Set<string>()
  const state = { isAway: false, containers, removals: 0 }
  const never = () => Promise.reject(new Error('not asked in this test'))
  const engine: Engine = {
    start: ({ kind, id }) => {
      setTimeout(() => containers.add(`${kind} ${id}`), 50)
      return Promise.reject(new Error('the engine did not answer'))
    },
    found: never,
    running: never,
    whyEnded: never,
    noticesMs: 0,
    said: never,
    async remove(kind: ContainerKind, id: string) {
      state.removals++
      if (state.isAway) throw new Error('the engine is away')
      containers.delete(`${kind} ${id}`)
    },
    async [Symbol.asyncDispose]() {},
  }
  return { engine, state }
}

test('a container that an engine makes after its start was given up is removed, also when the engine is away at that time', async () => {
  using stop = stopping()
  const { engine, state } = slowEngine()
  const settings = { engine, log: silentLog, signal: stop.signal, failedEnds: new Set<never>(), lateMs: [100, 100] }
  await expect(startContainer(wanted, settings, sealed, stop.signal)).rejects.toThrow('did not answer')
  expect(state.removals).toBe(1)
  state.isAway = true
  await until('the container, late', 1_000, async () => state.containers.has('app late'))
  await until('a removal that fails', 1_000, async () => state.removals > 1)
  expect(state.containers.size).toBe(1)
  state.isAway = false
  await until('the container to be removed', 3_000, async () => state.containers.size === 0)
})

test('a service that stops does not look for them any more', async () => {
  const { engine, state } = slowEngine()
  const stop = new AbortController()
  await expect(
    startContainer(wanted, { engine, log: silentLog, signal: stop.signal, failedEnds: new Set<never>(), lateMs: [20] }, sealed, stop.signal),
  ).rejects.toThrow('did not answer')
  stop.abort(new Error('the service stops'))
  await sleep(100)
  expect(state.removals).toBe(1)
})

/** A variable of the environment, until the end of the test. */
function setVariable(name: string, value: string): void {
  const before = process.env[name]
  process.env[name] = value
  onTestFinished(() => {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  })
}

test.each(['docker', 'kubernetes'] as const)('%s that cannot be reached is an engine that is away, for callers to try again', async (driver) => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-away-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const cluster = { name: 'c', cluster: { server: `https://127.0.0.1:${await freePort()}` } }
  const file = { clusters: [cluster], users: [{ name: 'u' }], contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }], 'current-context': 'x' }
  writeFileSync(join(dir, 'config'), JSON.stringify(file))
  setVariable('KUBECONFIG', join(dir, 'config'))
  setVariable('DOCKER_HOST', `unix://${dir}/docker.sock`)
  const settings = { config: readConfig({ COB_DATA_DIR: dir, COB_DRIVER: driver }), scope: 'here', replica: 'one', log: silentLog }
  await using engine = driver === 'docker' ? dockerEngine(settings) : kubernetesEngine(settings)
  using stop = stopping()
  const start = startContainer(
    { ...wanted, kind: 'browser' },
    { engine, log: silentLog, signal: stop.signal, failedEnds: new Set<never>(), lateMs: [] },
    sealed,
    stop.signal,
  )
  await expect(start).rejects.toBeInstanceOf(EngineAway)
})

function stopping(): AbortController & Disposable {
  const stop = new AbortController()
  return Object.assign(stop, { [Symbol.dispose]: () => stop.abort(new Error('the service stops')) })
}
