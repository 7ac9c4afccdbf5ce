// Finds the processes of a session from outside, and runs programs inside its sandbox.
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { descendantsOf, startTicks } from '../../src/base/processes.ts'
import { isRoot } from '../../src/base/user.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { kubectl } from '../kubernetes/cluster.ts'

/** The limit of one Docker command. */
const DOCKER_MS = 30_000

export interface Found {
  pid: number
  ticks: string
  command: string
  status: string
}

/** Whether sessions are containers or pods. Their user, first process and addresses then differ from those of the local driver. */
export const areContainers = process.env.COB_DRIVER === 'docker' || process.env.COB_DRIVER === 'kubernetes'

/** The container or the pod of a session. */
const containerOf = (id: string): string => `cob-browser-${id}`

/** The first process of a session. */
function rootOf(cloud: Cloud, id: string): number {
  if (process.env.COB_DRIVER === 'docker')
    return Number(execFileSync('docker', ['inspect', '--format', '{{.State.Pid}}', containerOf(id)], { encoding: 'utf8', timeout: DOCKER_MS }))
  if (process.env.COB_DRIVER === 'kubernetes') {
    const ids = kubectl('get', 'pod', containerOf(id), '--output', 'jsonpath={.status.containerStatuses[0].containerID} {.spec.nodeName}')
    const [, container, node] = /^containerd:\/\/(\w+) node(\d)$/.exec(ids)!
    const socket = join(process.env.COB_TEST_CLUSTER!, `containerd${node}.sock`)
    const tasks = execFileSync('ctr', ['--address', socket, '--namespace', 'k8s.io', 'tasks', 'list'], { encoding: 'utf8', timeout: DOCKER_MS })
    return Number(new RegExp(`^${container}\\s+(\\d+)`, 'm').exec(tasks)![1])
  }
  const { processes } = JSON.parse(readFileSync(join(cloud.dataDir, 'instances', id, 'instance.json'), 'utf8')) as { processes: { pid: number }[] }
  return processes[0]!.pid
}

/** Every process of a session: pasta and bwrap, or tini; then the agent, the display and Chromium. */
export function processesOf(cloud: Cloud, id: string): Found[] {
  const root = rootOf(cloud, id)
  return [root, ...descendantsOf(root)].flatMap((pid) => {
    try {
      return [
        {
          pid,
          ticks: startTicks(pid) ?? '',
          command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '),
          status: readFileSync(`/proc/${pid}/status`, 'utf8'),
        },
      ]
    } catch {
      return [] // the process ended in the meantime
    }
  })
}

export const agentOf = (cloud: Cloud, id: string): number =>
  processesOf(cloud, id).find(({ command }) => /node .*program\/agent\.mjs/.test(command) && !command.includes('bwrap'))!.pid

/** The agent's open files, by their names inside the sandbox. Undefined unless the test runs as root, because the agent's own user cannot see them. */
export function openFilesOf(cloud: Cloud, id: string): string[] | undefined {
  if (!isRoot()) return undefined
  const dir = `/proc/${agentOf(cloud, id)}/fd`
  return readdirSync(dir).map((fd) => {
    try {
      return readlinkSync(join(dir, fd))
    } catch {
      return '' // the file was closed in the meantime
    }
  })
}

/** Chromium's main process. */
export const chromiumOf = (cloud: Cloud, id: string): number =>
  processesOf(cloud, id).find(({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='))!.pid

/** The limit for Chromium to start on a busy machine. */
const RESTART_MS = 60_000

/** Kills the session's Chromium, and waits for the next one. */
export async function killChromium(cloud: Cloud, id: string): Promise<void> {
  const before = chromiumOf(cloud, id)
  process.kill(before, 'SIGKILL')
  const isBack = () => {
    try {
      return chromiumOf(cloud, id) !== before
    } catch {
      return false // Chromium is between two runs
    }
  }
  await until('the next Chromium', RESTART_MS, isBack, { everyMs: 20 })
}

/** The session's Chromium processes of one kind: `renderer` for pages, `gpu-process` for frames. */
export const childrenOf = (cloud: Cloud, id: string, type: 'renderer' | 'gpu-process'): number[] =>
  processesOf(cloud, id)
    .filter(({ command }) => command.includes(`--type=${type}`))
    .map(({ pid }) => pid)

/** Runs a shell line as a process of the session, with its user, mounts, pid namespace and network. */
export function runInside(cloud: Cloud, id: string, line: string): Promise<{ code: number; output: string }> {
  const program = ['/usr/bin/env', '-i', '-C', '/home/kernel', 'PATH=/usr/bin:/bin:/opt/node', 'HOME=/home/kernel', 'timeout', '20', '/bin/bash', '-c', line]
  const [file, ...args] = [...before(cloud, id), ...program]
  return new Promise((resolve) => {
    execFile(file!, args, { timeout: 30_000 }, (error, stdout, stderr) => resolve({ code: error ? Number(error.code ?? 1) : 0, output: stdout + stderr }))
  })
}

/** The command that runs a program in a session's sandbox. */
function before(cloud: Cloud, id: string): string[] {
  if (process.env.COB_DRIVER === 'docker') return ['docker', 'exec', containerOf(id)]
  if (process.env.COB_DRIVER === 'kubernetes')
    return ['kubectl', '--kubeconfig', join(process.env.COB_TEST_CLUSTER!, 'admin.yaml'), '--namespace', 'sessions', 'exec', containerOf(id), '--']
  return entering(cloud, id)
}

function entering(cloud: Cloud, id: string): string[] {
  // The agent's own user cannot enter the agent's namespaces. The display, or a lean browser, has the same namespaces, and this user can enter them.
  const display = processesOf(cloud, id).find(({ command }) => /^(Xvfb |\S+headless-shell (?!--type))/.test(command))!.pid
  const bwrap = processesOf(cloud, id)[1]!.pid
  const inner = /^NSpid:.*\s(\d+)$/m.exec(readFileSync(`/proc/${display}/status`, 'utf8'))![1]!
  // A user other than root needs two steps: through the outer user namespace to the mounts, and from there into the agent's namespace.
  const spaces = ['net', 'mnt', 'pid', 'ipc', 'uts'].map((space) => `--${space === 'mnt' ? 'mount' : space}=/proc/${display}/ns/${space}`)
  const outer = [`--user=/proc/${bwrap}/ns/user`, '--preserve-credentials', ...spaces, '--']
  const own = ['/usr/bin/nsenter', `--user=/proc/${inner}/ns/user`, '--preserve-credentials', '--']
  const asOwner = isRoot() ? ['setpriv', `--reuid=${uidOf(display)}`, `--regid=${uidOf(display)}`, '--clear-groups'] : []
  return [...asOwner, 'nsenter', ...outer, ...own]
}

const uidOf = (pid: number): string => /^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!

/** Calls the session's agent directly, also tools that callers cannot use. @throws when the answer is not 200 */
export async function askAgent(cloud: Cloud, id: string, path: string, body: object): Promise<Buffer> {
  const socketPath = join(cloud.dataDir, 'instances', id, 'agent.sock')
  const asking = request({ socketPath, path, method: 'POST', headers: { 'content-type': 'application/json' } }).end(JSON.stringify(body))
  const [reply] = (await once(asking, 'response')) as [IncomingMessage]
  const answer = await buffer(reply)
  if (reply.statusCode !== 200) throw new Error(`${path} answered ${reply.statusCode}: ${answer.toString().slice(0, 300)}`)
  return answer
}
