// The runs of a worker, one after the other: connect, compile, run, report, and check for side effects.
import type { Duplex } from 'node:stream'
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { sleep, WaitTimeout, within } from '../../base/wait.ts'
import { AsyncLocalStorage } from 'node:async_hooks'
import { readLines } from '../../base/lines.ts'
import { compile } from './compile.ts'
import { toJson } from './json.ts'
import { Link } from './link.ts'
import type { RunOrder, WorkerMessage } from './protocol.ts'
import { watchTimers } from './timers.ts'
import { resources, watchTraces, type Resources, type Traces } from './traces.ts'

/**
 * How long a connection is kept for the next run. A new connection is slow while a page loads: it has to wait until the page's
 * server answers. An idle connection costs a little for every event of every page.
 */
const LINGER_MS = 10_000

/** Matches code that may leave something on Playwright's objects. The next run then gets a new connection, with new objects. */
const LASTING =
  /\.\s*(on|once|addListener|prepend\w*|set(?!Content|InputFiles|Checked|Timeout|Interval|Immediate)\w+|add\w+|expose\w+|route\w*|new\w+|grant\w+|emulate\w*|clock|tracing|coverage|start\w*|pause)\b|\b(page|context|browser)\s*(\.\s*\w+|\[[^\]]*\])\s*=[^=]|\b(assign|defineProperty|Reflect|eval|Function)\b/

/** After a run, its side effects are checked until none are left, at most for this long. */
const SETTLE_MS = 300
/** After this part of SETTLE_MS the connection is ended, and with it commands that the code did not await. */
const PATIENCE_MS = 30

/** After this many turns of the event loop without a command to the browser, none will come: code that still runs sends one in four turns. */
const QUIET_TURNS = 12

/** The longest text of an error, in UTF-16 code units. */
const MAX_ERROR = 64 * 1024

/** Node's name for the connection to the browser in process.getActiveResourcesInfo(). */
const SOCKET = 'TCPSocketWrap'

type Failure = { is: 'ended'; success: false; error: string }

/** Runs the orders from `channel`. The process ends with the channel. */
export function serveRuns(channel: Duplex): void {
  const own = resources()
  const stopTimers = watchTimers()
  /** The run that started the current asynchronous work. */
  const belongs = new AsyncLocalStorage<RunOrder>()
  const withLink: Resources = new Map([...own, [SOCKET, (own.get(SOCKET) ?? 0) + 1]])
  let link: Link | undefined
  let url = ''
  let linger: NodeJS.Timeout | undefined
  /** The state of the process after the last run, over the same connection. Reading it again would cost every run 0.15 ms. */
  let untouched: { over: Link | undefined; traces: (usual: Resources) => Traces } | undefined
  let current: RunOrder | undefined
  /** Ends the current run with an error that its code cannot catch, such as one from a timer or an event listener. */
  let interrupt: (error: unknown) => void = () => {}

  const tell = (message: WorkerMessage) => void channel.write(`${JSON.stringify(message)}\n`)
  /** The result is JSON already. It can be large, so it is not parsed and serialized again. */
  const tellResult = (json: string | undefined) => void channel.write(`{"is":"ended","success":true${json === undefined ? '' : `,"result":${json}`}}\n`)

  async function disconnect(): Promise<void> {
    const old = link
    link = undefined
    await old?.close()
  }

  /** Keeps the connection for the next run. While it holds a dialog it stays open, because only it can answer the dialog. */
  function waitAWhile(): void {
    linger = setTimeout(() => (link?.holdsDialog ? waitAWhile() : void disconnect()), LINGER_MS).unref()
  }

  async function connected({ browser: wanted, connectMs }: RunOrder): Promise<Link> {
    // First read everything that the browser has sent so far: a page may have crashed.
    await turnOfLoop()
    await turnOfLoop()
    if (!link?.isUsable || url !== wanted) {
      await disconnect()
      link = await Link.open(wanted, connectMs)
      url = wanted
    }
    return link
  }

  /** Whether a finished run has stopped completely and left no side effects. */
  async function settles(traces: (usual: Resources) => Traces): Promise<boolean> {
    const began = performance.now()
    for (;;) {
      const isDone = await isQuiet(link)
      const left = traces(link ? withLink : own)
      if (isDone && left === 'none') return true
      const passed = performance.now() - began
      if (left === 'lasting' || passed > SETTLE_MS) return false
      // The end of a connection dismisses the dialogs that it holds. They belong to another client, unless commands of the code still wait.
      if (passed > PATIENCE_MS && !(isDone && link?.holdsDialog)) await disconnect()
      await sleep(10)
    }
  }

  async function scopeOf(order: RunOrder) {
    const current = await connected(order)
    return { browser: current.browser, ...(await current.front()) }
  }

  async function run(order: RunOrder): Promise<void> {
    clearTimeout(linger)
    // Usually the connection is open, and the run begins at once: then both messages are one write.
    const send = holdBack(channel)
    tell({ is: 'taken' })
    const { code, mark } = order
    let scope
    try {
      scope = await within('the browser', order.connectMs, scopeOf(order))
    } catch (error) {
      // A hanging browser may still execute the commands sent to it, during the next run. So this process takes no other run.
      const late = error instanceof WaitTimeout
      tell({ is: 'unconnected', why: errorText(error), late })
      if (late) return tell({ is: 'idle', fit: false })
      await disconnect()
      return tell({ is: 'idle', fit: true })
    }
    const { traces } = (untouched = untouched && untouched.over === link ? untouched : { over: link, traces: watchTraces() })
    tell({ is: 'begun' })
    // Send before the code starts, which may never yield.
    send()
    const interrupted = Promise.withResolvers<never>()
    interrupted.promise.catch(() => {})
    let failure: Failure | undefined
    let json: string | undefined
    let broken = false
    current = order
    interrupt = (error) => {
      broken = true
      interrupted.reject(error)
    }
    try {
      const { page, context, browser } = scope
      const running = belongs.run(order, () => compile(code)(page, context, browser))
      json = toJson(await Promise.race([running, interrupted.promise]))
    } catch (error) {
      process.stderr.write(`${stackText(error)}\n`)
      failure = { is: 'ended', success: false, error: errorText(error) }
    }
    process.stdout.write(mark)
    process.stderr.write(mark)
    if (failure) tell(failure)
    else tellResult(json)
    current = undefined
    stopTimers()
    if (broken || LASTING.test(code)) await disconnect()
    // After this, a dialog belongs to another client.
    link?.rest()
    const fit = !broken && (await settles(traces))
    waitAWhile()
    tell({ is: 'idle', fit })
  }

  // Ignore errors from work that an earlier run started. Event listeners belong to no run; their errors count for the current one.
  const isCurrent = () => current !== undefined && (belongs.getStore() ?? current) === current
  process.on('uncaughtException', (error) => isCurrent() && interrupt(error))
  // Often this is the loser of a finished race. So print it, but do not fail the run.
  process.on('unhandledRejection', (error) => isCurrent() && process.stderr.write(`Unhandled rejection: ${stackText(error)}\n`))

  // If a run cannot report its end, because its code broke a built-in, end the process: its exit tells the agent.
  readLines(channel, Infinity, (line) => void run(JSON.parse(line!) as RunOrder).catch(() => process.exit(1)))
  channel.on('close', () => process.exit())
}

/** Holds back writes until the returned function is called, or until the next turn of the event loop. */
function holdBack(channel: Duplex): () => void {
  channel.cork()
  let isHeld = true
  const send = () => {
    if (isHeld) channel.uncork()
    isHeld = false
  }
  setImmediate(send)
  return send
}

async function isQuiet(link: Link | undefined): Promise<boolean> {
  const sent = link?.sent
  for (let turns = 0; turns < QUIET_TURNS; turns++) {
    await turnOfLoop()
    if (link && (link.pending > 0 || link.sent !== sent)) return false
  }
  return true
}

function errorText(error: unknown): string {
  const text = shown(() => (error instanceof Error ? error.message : error))
  return text.length <= MAX_ERROR ? text : `${text.slice(0, MAX_ERROR)}… (${text.length - MAX_ERROR} more characters were dropped)`
}

/** The message, and the stack with only the lines of the caller's code. */
const stackText = (error: unknown): string =>
  shown(() => {
    if (!(error instanceof Error)) return error
    const lines = String(error.stack ?? error.message).split('\n')
    return lines.filter((line) => !/^\s+at .*(\/opt\/cob\/|node:|\/src\/agent\/)/.test(line)).join('\n')
  })

/** The result of `look` as text. Code can throw any value, even one that throws when it is read. */
function shown(look: () => unknown): string {
  try {
    return stripVTControlCharacters(printed(look()))
  } catch {
    return 'the code threw a value that cannot be shown as text'
  }
}

function printed(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (toJson(value) ?? String(value))
  } catch {
    return Object.prototype.toString.call(value)
  }
}
