// Calls the cluster of script/test-kubernetes as its administrator, and kills programs in it.
import { execFile, execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const CALL_MS = 60_000
/** The limit for slow commands: a namespace ends only after its pods. */
const SOON_MS = 240_000
const run = promisify(execFile)

const folder = (): string => process.env.COB_TEST_CLUSTER!
const asAdmin = () => ({ encoding: 'utf8' as const, timeout: CALL_MS, env: { ...process.env, KUBECONFIG: join(folder(), 'admin.yaml') } })

/** Runs kubectl in the namespace of sessions, unless the arguments name another one. It blocks this process, including the servers in it. @throws when it fails */
export const kubectl = (...args: string[]): string => execFileSync('kubectl', ['--namespace', 'sessions', ...args], asAdmin())
export const kubectlSoon = async (...args: string[]): Promise<string> =>
  (await run('kubectl', ['--namespace', 'sessions', ...args], { ...asAdmin(), timeout: SOON_MS })).stdout

const pidOf = (program: string): number => Number(readFileSync(join(folder(), 'pids', program), 'utf8'))

/** Kills a program of the cluster (`kubelet1`, `containerd2`, `apiserver` …), runs the work, and starts the program again, also when the work fails. */
export async function whileAway(program: string, work: () => Promise<void>): Promise<void> {
  process.kill(pidOf(program), 'SIGKILL')
  try {
    await work()
  } finally {
    execFileSync('sh', [join(folder(), `start-${program}`)], { timeout: CALL_MS })
  }
}
