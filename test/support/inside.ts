// The processes of a session, found from outside, and programs run inside its sandbox.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { descendantsOf, startTicks } from '../../src/base/processes.ts'
import { isRoot } from '../../src/base/user.ts'
import type { Cloud } from './cloud.ts'

export interface Found {
  pid: number
  ticks: string
  command: string
  status: string
}

/** Every process of a session: pasta, bwrap, agent, display, Chromium. */
export function processesOf(cloud: Cloud, id: string): Found[] {
  const { processes } = JSON.parse(readFileSync(join(cloud.dataDir, 'instances', id, 'instance.json'), 'utf8')) as { processes: { pid: number }[] }
  const root = processes[0]!.pid
  return [root, ...descendantsOf(root)].flatMap((pid) => {
    try {
      return [{ pid, ticks: startTicks(pid) ?? '', command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '), status: readFileSync(`/proc/${pid}/status`, 'utf8') }]
    } catch {
      return [] // it ended in between
    }
  })
}

export const agentOf = (cloud: Cloud, id: string): number => processesOf(cloud, id).find(({ command }) => /node .*agent\/main\.ts/.test(command) && !command.includes('bwrap'))!.pid

/** Chromium's main process. */
export const chromiumOf = (cloud: Cloud, id: string): number => processesOf(cloud, id).find(({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='))!.pid

/** Runs a shell line as a process of the session, with its users, mounts, processes and network. */
export function runInside(cloud: Cloud, id: string, line: string): Promise<{ code: number; output: string }> {
  const who = isRoot() ? [] : ['--preserve-credentials']
  const args = ['--target', String(agentOf(cloud, id)), '--user', '--net', '--mount', '--pid', '--ipc', '--uts', ...who, '--setuid', '1000', '--setgid', '1000', '--wdns=/home/kernel', '--', '/usr/bin/env', '-i', 'PATH=/usr/bin:/bin:/opt/node', 'HOME=/home/kernel', 'timeout', '20', '/bin/bash', '-c', line]
  return new Promise((resolve) => {
    execFile('nsenter', args.filter((arg) => isRoot() || !/^--set|^1000$/.test(arg)), { timeout: 30_000 }, (error, stdout, stderr) => resolve({ code: error ? Number(error.code ?? 1) : 0, output: stdout + stderr }))
  })
}
