// Reports programs that the kernel kills because an instance has used up its memory, as read from the kernel's log. Only root may read the log, and only of its
// own machine; elsewhere the kills are unknown. A kill is reported to the instance's agent, for its telemetry.
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { telemetryFeed } from '../../agent/telemetry/contract.ts'
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import { call } from '../../http/client.ts'
import type { Instance } from '../driver.ts'

const KERNEL_LOG = '/dev/kmsg'
/** Interval of reads. The log cannot be waited for: Node would block a thread in the read. A read without news is one system call. */
const LOOK_MS = 1_000
/** Most records per read, so that an old log of many megabytes does not delay the service's start. */
const AT_ONCE = 500
/** The kernel's limit on one record, with its additions. */
const MAX_RECORD = 8_192
const TELL_MS = 5_000
/** The limit of the API. */
const TOP_TASKS = 5
const PAGE_KB = 4

/** A killed program. */
export interface Kill {
  /** Its group, and the group whose limit was reached: "/" for the machine. */
  group: string
  limited: string
  data: {
    pid: number
    process_name: string
    rss_kb: number
    constraint?: string
    trigger_process_name?: string
    trigger_pid?: number
    top_tasks?: { pid: number; name: string; rss_kb: number }[]
  }
}

const CONSTRAINTS: Record<string, string> = { NONE: 'none', MEMCG: 'memcg', CPUSET: 'cpuset', MEMORY_POLICY: 'memory_policy' }

/** Joins the lines of reports. Strangers choose the names of processes: the names appear only in fixed places, and are taken unchanged. */
export class Reports {
  #trigger: { name: string; pid?: number } | undefined
  #columns: string[] = []
  #tasks: { pid: number; name: string; rss_kb: number }[] = []
  #killed: { constraint: string; limited: string; group: string } | undefined

  /** Adds a line of the kernel; returns a kill when the line completes a report. */
  push(line: string): Kill | undefined {
    const begun = /^(.{1,15}) invoked oom-killer: /.exec(line)
    if (begun) {
      this.#clear()
      this.#trigger = { name: begun[1]! }
      return undefined
    }
    const cpu = this.#trigger && this.#trigger.pid === undefined ? /^CPU: \d+ (?:UID: \d+ )?PID: (\d+) Comm: /.exec(line) : undefined
    if (cpu) this.#trigger!.pid = Number(cpu[1])
    const header = /^\[ *pid *\] +(.*) name$/.exec(line)
    if (header) this.#columns = header[1]!.split(/ +/)
    else if (this.#columns.length > 0) this.#task(line)
    const verdict = /^oom-kill:constraint=CONSTRAINT_(\w+),.*?(?:oom_memcg=([^,]*),|global_oom,)task_memcg=([^,]*),task=/.exec(line)
    if (verdict) this.#killed = { constraint: verdict[1]!, limited: verdict[2] ?? '/', group: verdict[3]! }
    const killed = /Killed process (\d+) \((.{0,15})\) total-vm:\d+kB, anon-rss:(\d+)kB, file-rss:(\d+)kB(?:, shmem-rss:(\d+)kB)?/.exec(line)
    return killed && this.#killed ? this.#report(killed, this.#killed) : undefined
  }

  #task(line: string): void {
    const row = new RegExp(String.raw`^\[ *(\d+)\]((?: +-?\d+){${this.#columns.length}}) (.*)$`).exec(line)
    const rss = row && Number(row[2]!.trim().split(/ +/)[this.#columns.indexOf('rss')])
    if (rss) this.#tasks.push({ pid: Number(row[1]), name: row[3]!.trim().slice(0, 15), rss_kb: rss * PAGE_KB })
  }

  #report([, pid, name, anon, file, shared]: RegExpExecArray, { constraint, limited, group }: { constraint: string; limited: string; group: string }): Kill {
    const known = CONSTRAINTS[constraint]
    const data: Kill['data'] = {
      pid: Number(pid),
      process_name: name!,
      rss_kb: Number(anon) + Number(file) + Number(shared ?? 0),
      ...(known && { constraint: known }),
      ...(this.#trigger && { trigger_process_name: this.#trigger.name }),
      ...(this.#trigger?.pid !== undefined && { trigger_pid: this.#trigger.pid }),
      ...(this.#tasks.length > 0 && { top_tasks: this.#tasks.toSorted((one, other) => other.rss_kb - one.rss_kb).slice(0, TOP_TASKS) }),
    }
    this.#clear()
    return { group, limited, data }
  }

  #clear(): void {
    this.#trigger = this.#killed = undefined
    this.#columns = []
    this.#tasks = []
  }
}

/** The kernel's lines from now on, each once; none where the log cannot be read. Ends with `signal`. */
async function* kernelLines(signal: AbortSignal): AsyncGenerator<string> {
  let file: number
  try {
    file = openSync(KERNEL_LOG, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    return
  }
  try {
    const record = Buffer.alloc(MAX_RECORD)
    for (let isOld = true; !signal.aborted;) {
      for (let left = AT_ONCE; left > 0; left--) {
        const length = readRecord(file, record)
        if (length === undefined) {
          isOld = false
          break
        }
        if (isOld) continue
        // "priority,number,microseconds,flags;text", then further lines. Records of programs have a priority above 7.
        const line = /^[0-7],[^;]*;(.*)$/m.exec(record.toString('utf8', 0, length))
        if (line) yield line[1]!
      }
      await sleep(isOld ? 0 : LOOK_MS, signal)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    closeSync(file)
  }
}

/** The next record; undefined when there is none yet. */
function readRecord(file: number, into: Buffer): number | undefined {
  try {
    return readSync(file, into)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // The kernel has overwritten unread records.
    if (code === 'EPIPE') return 0
    if (code !== 'EAGAIN') throw error
    return undefined
  }
}

/** Tells the agents of instances about kills. */
export class OomKills {
  readonly #instances = new Map<string, Pick<Instance, 'id' | 'agent'>>()
  readonly #pattern: RegExp
  readonly #log: Log
  readonly #signal: AbortSignal

  /** `scope` is part of the names of the instances' groups (limits.ts). */
  constructor(scope: string, log: Log, signal: AbortSignal, lines = kernelLines(signal)) {
    this.#pattern = new RegExp(`/cob-${scope}/([^/,]+)`)
    this.#log = log
    this.#signal = signal
    this.#watch(lines).catch((err: unknown) => log.warn({ err }, "the kernel's log cannot be read any more; programs that it kills for memory are not told of"))
  }

  follow(instance: Pick<Instance, 'id' | 'agent'>): void {
    this.#instances.set(instance.id, instance)
  }

  forget(instance: Pick<Instance, 'id'>): void {
    if (this.#instances.get(instance.id) === instance) this.#instances.delete(instance.id)
  }

  async #watch(lines: AsyncIterable<string>): Promise<void> {
    const reports = new Reports()
    for await (const line of lines) {
      const kill = reports.push(line)
      if (kill) this.#tell(kill)
    }
  }

  #tell({ group, limited, data }: Kill): void {
    const id = this.#pattern.exec(group)?.[1]
    const instance = id === undefined ? undefined : this.#instances.get(id)
    if (!instance) return
    const { trigger_process_name: _name, trigger_pid: _pid, top_tasks: _tasks, ...own } = data
    // When more than this instance had reached a limit, the report names processes of others.
    const known = this.#pattern.exec(limited)?.[1] === id ? data : own
    this.#log.info({ instance: id, ...own }, 'the kernel has ended a program of a sandbox, which had used up its memory')
    const body = { type: 'system_oom_kill' as const, source: { kind: 'local_process' as const, event: 'oom_kill' }, data: known }
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TELL_MS)])
    // The agent may have been killed, or be of an earlier version.
    call(instance.agent, telemetryFeed.addTelemetry, { body }, { signal }).catch((err: unknown) =>
      this.#log.debug({ err, instance: id }, 'its agent was not told'),
    )
  }
}
