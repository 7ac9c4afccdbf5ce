// Errors when the kernel cannot be asked about processes.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from './paths.ts'
import { childrenOf, isAlive, nameProcess, processesUsing } from './processes.ts'

/** Runs code in a process that has no free descriptors; returns its result about `found`. */
function withoutDescriptors(lines: string): unknown {
  const script = `
    import { openSync, closeSync } from 'node:fs'
    import * as processes from ${JSON.stringify(join(PACKAGE_DIR, 'src/base/processes.ts'))}
    const self = processes.nameProcess(process.pid)
    const told = async (work) => { try { return (await work()) ?? 'nothing' } catch (error) { return error.code } }
    const held = []
    try { for (;;) held.push(openSync('/dev/null')) } catch {}
    const found = await Promise.all(${lines})
    held.forEach((fd) => closeSync(fd))
    console.log(JSON.stringify(found))`
  const args = ['--nofile=64:64', process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script]
  return JSON.parse(execFileSync('prlimit', args, { encoding: 'utf8' }))
}

test('a process that cannot be inspected, because no file descriptor is free, does not count as ended', () => {
  expect(
    withoutDescriptors(`[processes.isAlive(self), processes.isAlive({ pid: 999999999, ticks: '1' }), told(() => processes.nameProcess(process.pid)),
      told(() => processes.childrenOf(process.pid)), told(() => processes.processesUsing('/', '')), told(() => processes.signalProcess(self, 'SIGKILL'))]`),
  ).toEqual([true, true, 'EMFILE', 'EMFILE', 'EMFILE', 'EMFILE'])
})

test('a process that has exited counts as ended, also if another process has its pid now', () => {
  const self = nameProcess(process.pid)!
  expect([isAlive(self), isAlive({ ...self, ticks: '1' }), nameProcess(999_999_999), isAlive({ pid: 999_999_999, ticks: '1' })]).toEqual([
    true,
    false,
    undefined,
    false,
  ])
})

test('the children of every thread of a process are found', async () => {
  const code = `
    const child = require('node:child_process').spawn('/bin/sleep', ['60'])
    require('node:worker_threads').parentPort.on('message', () => child.kill('SIGKILL')).postMessage(child.pid)
    child.on('exit', () => process.exit())`
  const worker = new Worker(code, { eval: true })
  const ended = new Promise((resolve) => worker.on('exit', resolve))
  const pid = await new Promise<number>((resolve) => worker.once('message', resolve))
  const found = childrenOf(process.pid)
  worker.postMessage('end')
  await ended
  expect(found).toContain(pid)
})

test('of processes that use a path, the beginning of the command line is looked at, and others have their turn meanwhile', async () => {
  const path = `/nowhere/${process.pid}-used`
  const waiting = (...args: string[]) => spawn('perl', ['-e', '$| = 1; print "."; sleep', ...args], { stdio: ['ignore', 'pipe', 'ignore'] })
  const [near, far] = [waiting(path), waiting('x'.repeat(100_000), path)]
  try {
    await Promise.all([once(near.stdout, 'data'), once(far.stdout, 'data')])
    let turns = 0
    const turn = setInterval(() => turns++, 0)
    const found = await processesUsing(path, 'perl')
    clearInterval(turn)
    expect(found.map(({ pid }) => pid)).toEqual([near.pid])
    expect(turns).toBeGreaterThan(0)
  } finally {
    near.kill('SIGKILL')
    far.kill('SIGKILL')
  }
})
