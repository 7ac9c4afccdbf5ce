// The server of the picture: TigerVNC's X0tigervnc on the session's display. It runs only while somebody looks, and takes no input from anybody.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Log } from '../../base/log.ts'
import { until, within } from '../../base/wait.ts'

const PROGRAM = 'X0tigervnc'
/** Where it listens. Pages reach no such socket; programs of the session have the display anyway. */
const SOCKET = '/run/cob/live.sock'
/** Up within 100 ms on a machine with nothing else to do. */
const READY_MS = 15_000
/** After the last viewer has left, for the one who only loads the page again. */
const LINGER_MS = 10_000

const command = (display: string): string[] => [
  `-display=${display}`,
  `-rfbunixpath=${SOCKET}`,
  '-rfbunixmode=0600',
  '-rfbport=-1',
  '-SecurityTypes=None',
  '-UseBlacklist=0',
  '-AlwaysShared',
  '-AcceptKeyEvents=0',
  // It hears where viewers point, which tells it whether they see a cursor of their own, and does nothing about it.
  '-AcceptPointerEvents=0',
  '-AcceptSetDesktopSize=0',
  // Only the cursor's position is asked for in a rhythm; drawing is told by the X server.
  '-PollingCycle=40',
  '-desktop=Cob',
  '-Log=*:stderr:0',
]

interface Running {
  stop(): void
  isStopping: boolean
  ended: Promise<unknown>
  hasEnded: boolean
  /** Its last words. */
  said: string
}

export class Picture {
  readonly #display: string
  readonly #log: Log
  #running: Running | undefined
  #viewers = 0
  #linger: NodeJS.Timeout | undefined

  constructor(display: string, log: Log) {
    this.#display = display
    this.#log = log
  }

  /** A connection of its own for a viewer; the server is started when there is none, and ended some time after the last one has closed. */
  async connect(signal: AbortSignal): Promise<Socket> {
    this.#viewers++
    clearTimeout(this.#linger)
    try {
      if (this.#running?.isStopping) await within('the end of the picture', READY_MS, this.#running.ended, signal)
      const running = (this.#running ??= this.#start())
      const socket = await until('the server of the picture', READY_MS, () => (running.hasEnded ? gone(running) : reach()), { everyMs: 5, signal })
      socket.once('close', () => this.#left())
      return socket
    } catch (error) {
      this.#left()
      throw error
    }
  }

  #left(): void {
    if (--this.#viewers > 0) return
    this.#linger = setTimeout(() => this.#running?.stop(), LINGER_MS)
    this.#linger.unref()
  }

  #start(): Running {
    const started = performance.now()
    const child = spawn(PROGRAM, command(this.#display), { stdio: ['ignore', 'ignore', 'pipe'] })
    const running: Running = {
      isStopping: false,
      stop() {
        running.isStopping = true
        child.kill()
      },
      // A program that is not there is an error and never closes.
      ended: once(child, 'close').catch((error: unknown) => (running.said = String(error))),
      hasEnded: false,
      said: '',
    }
    child.stderr.on('data', (chunk: Buffer) => (running.said = (running.said + chunk.toString()).slice(-2000)))
    void running.ended.then(() => {
      running.hasEnded = true
      if (this.#running === running) this.#running = undefined
      this.#log.debug({ said: running.said, code: child.exitCode, ms: Math.round(performance.now() - started) }, 'the server of the picture ended')
    })
    return running
  }
}

const gone = ({ said }: Running): never => {
  throw new Error(`the server of the picture (${PROGRAM}) ended: ${said}`)
}

function reach(): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(SOCKET)
    socket.once('connect', () => resolve(socket.off('error', onError)))
    const onError = () => resolve(undefined)
    socket.once('error', onError)
  })
}
