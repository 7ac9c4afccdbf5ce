// Processes by pid: errors when the kernel cannot be asked, reused pids, the end of process groups.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, test, vi } from 'vitest'
import { PACKAGE_DIR } from './paths.ts'
import { KILLED_GONE_MS, childrenOf, endProcessGroup, isAlive, killProcessGroup, nameProcess, processesUsing } from './processes.ts'
import { sleep, until } from './wait.ts'

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

describe('the end of a process group', () => {
  /** A group whose leader has started `sleep`; `then` is what the leader does after that. */
  async function group(then: string) {
    const child = spawn('/bin/sh', ['-c', `sleep 60 >/dev/null & echo $!; ${then}`], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
    const exited = once(child, 'exit')
    const [pid] = (await once(child.stdout, 'data')) as [Buffer]
    return { child, exited, started: nameProcess(Number(pid))! }
  }

  test('is that of the child and of what it has started', async () => {
    const { child, exited, started } = await group('wait')
    expect(await endProcessGroup('a group', child, exited)).toEqual([null, 'SIGKILL'])
    await until('the other process to end', KILLED_GONE_MS, () => !isAlive(started))
  })

  test('is that of what a child has left, when the child has ended', async () => {
    const { child, exited, started } = await group('exit 3')
    await exited
    expect(isAlive(started)).toBe(true)
    expect(await endProcessGroup('a group', child, exited)).toEqual([3, null])
    await until('the other process to end', KILLED_GONE_MS, () => !isAlive(started))
    killProcessGroup(child) // nothing is left of it: no error
  })

  test('leaves a process alone that has got the pid of a child that has ended', async () => {
    const { child, exited, started } = await group('wait')
    killProcessGroup({ pid: child.pid, exitCode: 0, signalCode: null } as ChildProcess)
    // A killed process would have ended by then.
    await sleep(200)
    const stays = [isAlive(started), child.signalCode]
    await endProcessGroup('a group', child, exited)
    expect(stays).toEqual([true, null])
    expect(child.signalCode).toBe('SIGKILL')
  })

  test('that does not come is an error that names what was waited for', async () => {
    vi.useFakeTimers()
    try {
      const end = endProcessGroup('a program', { pid: undefined } as ChildProcess, new Promise(() => {}))
      vi.advanceTimersByTime(KILLED_GONE_MS)
      await expect(end).rejects.toThrow(`a program to end: nothing within ${KILLED_GONE_MS} ms`)
    } finally {
      vi.useRealTimers()
    }
  })
})
