// The cluster of script/test-kubernetes, as its administrator: what it has, and what is killed in it.
import { execFile, execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const CALL_MS = 60_000
/** The end of a namespace waits for the ends of its pods. */
const SOON_MS = 240_000
const run = promisify(execFile)

const folder = (): string => process.env.COB_TEST_CLUSTER!
const asAdmin = () => ({ encoding: 'utf8' as const, timeout: CALL_MS, env: { ...process.env, KUBECONFIG: join(folder(), 'admin.yaml') } })

/** Runs kubectl in the namespace of sessions, or in that of its arguments. What this process serves stands still meanwhile. @throws when it fails */
export const kubectl = (...args: string[]): string => execFileSync('kubectl', ['--namespace', 'sessions', ...args], asAdmin())
export const kubectlSoon = async (...args: string[]): Promise<string> =>
  (await run('kubectl', ['--namespace', 'sessions', ...args], { ...asAdmin(), timeout: SOON_MS })).stdout

const pidOf = (program: string): number => Number(readFileSync(join(folder(), 'pids', program), 'utf8'))

/** Kills a program of the cluster (`kubelet1`, `containerd2`, `apiserver` …), and starts it again once the work is done or has failed. */
export async function whileAway(program: string, work: () => Promise<void>): Promise<void> {
  process.kill(pidOf(program), 'SIGKILL')
  try {
    await work()
  } finally {
    execFileSync('sh', [join(folder(), `start-${program}`)], { timeout: CALL_MS })
  }
}
