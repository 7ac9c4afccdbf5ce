// Notifications of changes of the addresses at which this machine answers.
import { spawn, type ChildProcess } from 'node:child_process'
import { hostRanges } from '../../base/own-addresses.ts'
import type { Log } from '../../base/log.ts'

/** One change comes as several lines. They are collected for this long and handled once. */
const GATHER_MS = 20

/** `ip monitor` does not end by itself. If it does, it is started again after this time, and all addresses are read again. */
const AGAIN_MS = 1_000

/** Calls `changed` when there are new ranges. Disposing ends the watch; so does the end of this process. */
export function watchHostRanges(changed: (added: string[]) => void, log: Log): Disposable {
  let known = new Set(hostRanges())
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let ended = false

  const look = () => {
    timer = undefined
    try {
      const now = hostRanges()
      const added = now.filter((range) => !known.has(range))
      known = new Set(now)
      if (added.length > 0) changed(added)
    } catch (err) {
      log.error({ err }, "the machine's addresses cannot be read; running instances can reach new ones")
    }
  }
  const soon = () => void (timer ??= setTimeout(look, GATHER_MS).unref())
  const start = () => {
    if (ended) return
    // It reports lost events on standard error. That is a reason to look as well.
    child = spawn('setpriv', ['--pdeathsig', 'KILL', 'ip', 'monitor', 'address', 'route'], { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' })
    child.stdout!.on('data', soon)
    child.stderr!.on('data', soon)
    child.on('error', () => {})
    child.once('close', (code, signal) => {
      if (ended) return
      log.warn({ code, signal }, "the watch over the machine's addresses ended; it is started again")
      setTimeout(start, AGAIN_MS).unref()
    })
    // Finds changes from before the monitor listened.
    child.once('spawn', soon)
    child.unref()
    for (const stream of [child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref()
  }
  start()
  return {
    [Symbol.dispose]() {
      ended = true
      clearTimeout(timer)
      child?.kill('SIGKILL')
    },
  }
}
