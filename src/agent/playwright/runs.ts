// The runs of a worker, one after the other: connect, compile, run, tell, and look what is left.
import type { Duplex } from 'node:stream'
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { sleep, WaitTimeout, within } from '../../base/wait.ts'
import { AsyncLocalStorage } from 'node:async_hooks'
import { compile } from './compile.ts'
import { toJson } from './json.ts'
import { readLines } from './lines.ts'
import { Link } from './link.ts'
import type { RunOrder, WorkerMessage } from './protocol.ts'
import { watchTimers } from './timers.ts'
import { resources, watchTraces, type Resources, type Traces } from './traces.ts'

/**
 * How long a connection waits for the next run: connecting anew in the midst of a page's loading takes as long as that. While
 * it waits, it costs a little for every event of every page.
 */
const LINGER_MS = 10_000

/** Code that may have set something on Playwright's objects that lasts: the next run gets new ones. */
const LASTING =
  /\.\s*(on|once|addListener|prepend\w*|set(?!Content|InputFiles|Checked|Timeout|Interval|Immediate)\w+|add\w+|expose\w+|route\w*|new\w+|grant\w+|emulate\w*|clock|tracing|coverage|start\w*|pause)\b|\b(page|context|browser)\s*(\.\s*\w+|\[[^\]]*\])\s*=[^=]|\b(assign|defineProperty|Reflect|eval|Function)\b/

/** What a run leaves is looked at until it is nothing, at most so long. */
const SETTLE_MS = 300
/** After this much of it the connection is ended, and with it what is asked of the browser and not waited for. */
const PATIENCE_MS = 30

/** Turns of the event loop without a command to the browser that show that none will come: code that goes on makes one in four. */
const QUIET_TURNS = 12

/** The longest text of an error, in UTF-16 code units. */
const MAX_ERROR = 64 * 1024

/** What Node calls the connection to the browser. */
const SOCKET = 'TCPSocketWrap'

type Failure = { is: 'ended'; success: false; error: string }

/** Serves the orders that come on `channel` until it ends; then the process does. */
export function serveRuns(channel: Duplex): void {
  const own = resources()
  const stopTimers = watchTimers()
  /** The run that something happens on behalf of. */
  const belongs = new AsyncLocalStorage<RunOrder>()
  const withLink: Resources = new Map([...own, [SOCKET, (own.get(SOCKET) ?? 0) + 1]])
  let link: Link | undefined
  let url = ''
  let linger: NodeJS.Timeout | undefined
  let current: RunOrder | undefined
  /** Ends the run that is on its way with an error that nothing in it waits for: a timer's, an event listener's. */
  let interrupt: (error: unknown) => void = () => {}

  const tell = (message: WorkerMessage) => void channel.write(`${JSON.stringify(message)}\n`)
  /** JSON that is there already is not made twice. */
  const tellResult = (json: string | undefined) => void channel.write(`{"is":"ended","success":true${json === undefined ? '' : `,"result":${json}`}}\n`)

  async function disconnect(): Promise<void> {
    const old = link
    link = undefined
    await old?.close()
  }

  /** Keeps the connection for the next run, and as long as a dialog can be answered by it alone. */
  function waitAWhile(): void {
    linger = setTimeout(() => (link?.holdsDialog ? waitAWhile() : void disconnect()), LINGER_MS).unref()
  }

  async function connected({ browser: wanted, connectMs }: RunOrder): Promise<Link> {
    if (!link?.isOpen || url !== wanted) {
      await disconnect()
      link = await Link.open(wanted, connectMs)
      url = wanted
    }
    return link
  }

  /** Whether nothing of a run that is over goes on, or is left. */
  async function settles(traces: (usual: Resources) => Traces): Promise<boolean> {
    const began = performance.now()
    for (;;) {
      const isDone = await isQuiet(link)
      const left = traces(link ? withLink : own)
      if (isDone && left === 'none') return true
      const passed = performance.now() - began
      if (left === 'lasting' || passed > SETTLE_MS) return false
      if (passed > PATIENCE_MS) await disconnect()
      await sleep(10)
    }
  }

  async function scopeOf(order: RunOrder) {
    const current = await connected(order)
    return { browser: current.browser, ...(await current.front()) }
  }

  async function run(order: RunOrder): Promise<void> {
    clearTimeout(linger)
    tell({ is: 'taken' })
    const { code, mark } = order
    let scope
    try {
      scope = await within('the browser', order.connectMs, scopeOf(order))
    } catch (error) {
      // What is asked of a browser that hangs may still come to pass, in the midst of the next run: this process takes no other.
      const late = error instanceof WaitTimeout
      tell({ is: 'unconnected', why: errorText(error), late })
      if (late) return tell({ is: 'idle', fit: false })
      await disconnect()
      return tell({ is: 'idle', fit: true })
    }
    const traces = watchTraces()
    tell({ is: 'begun' })
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
    const fit = !broken && (await settles(traces))
    link?.rest()
    waitAWhile()
    tell({ is: 'idle', fit })
  }

  // What happens on behalf of a run that is over is nobody's any more. Listeners are called on behalf of nobody.
  const isCurrent = () => current !== undefined && (belongs.getStore() ?? current) === current
  process.on('uncaughtException', (error) => isCurrent() && interrupt(error))
  // Often what is left of a race that is over; it says what it has to say, and no more.
  process.on('unhandledRejection', (error) => isCurrent() && process.stderr.write(`Unhandled rejection: ${stackText(error)}\n`))

  // A run that cannot even tell how it ended (its code has spoiled what that takes) ends the process, which says so.
  readLines(channel, Infinity, (line) => void run(JSON.parse(line!) as RunOrder).catch(() => process.exit(1)))
  channel.on('close', () => process.exit())
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
  return text.length <= MAX_ERROR ? text : `${text.slice(0, MAX_ERROR)}… (${text.length - MAX_ERROR} more characters are left out)`
}

/** The stack with the lines of the code and of nobody else; its head has the message. */
const stackText = (error: unknown): string =>
  shown(() => {
    if (!(error instanceof Error)) return error
    const lines = String(error.stack ?? error.message).split('\n')
    return lines.filter((line) => !/^\s+at .*(\/opt\/cob\/|node:|\/src\/agent\/)/.test(line)).join('\n')
  })

/** What `look` finds, as text. Anything can be thrown, also what throws when it is looked at. */
function shown(look: () => unknown): string {
  try {
    return stripVTControlCharacters(printed(look()))
  } catch {
    return 'something was thrown that cannot be shown'
  }
}

function printed(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (toJson(value) ?? String(value))
  } catch {
    return Object.prototype.toString.call(value)
  }
}
