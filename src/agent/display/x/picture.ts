// The picture server: TigerVNC's X0tigervnc on the session's display. It runs only while a viewer is connected, and accepts no input.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Log } from '../../../base/log.ts'
import { until, within } from '../../../base/wait.ts'
import type { Picture, PictureCrash } from '../display.ts'
import { servePictureDisplay } from './picture-display.ts'

const PROGRAM = 'X0tigervnc'
/** The path of its socket. Pages cannot reach it; programs of the session can use the display anyway. */
const SOCKET = '/run/cob/live.sock'
/** Its display: the session's, without the error that would end it. Programs of the session do not choose this number by themselves. */
const DISPLAY = ':9971'
const DISPLAY_SOCKET = '/tmp/.X11-unix/X9971'
/** It starts within 100 ms on an idle machine. */
const READY_MS = 15_000
/** It keeps running this long after the last viewer has left, for a viewer that only reloads the page. */
const LINGER_MS = 10_000

const COMMAND = [
  `-display=${DISPLAY}`,
  `-rfbunixpath=${SOCKET}`,
  '-rfbunixmode=0600',
  '-rfbport=-1',
  '-SecurityTypes=None',
  '-UseBlacklist=0',
  '-AlwaysShared',
  '-AcceptKeyEvents=0',
  // It gets the viewers' pointer positions to detect whether a viewer draws its own cursor, but does not act on them.
  '-AcceptPointerEvents=0',
  '-AcceptSetDesktopSize=0',
  // Only the cursor's position is polled; the X server reports drawing.
  '-PollingCycle=40',
  '-desktop=Cob',
  '-Log=*:stderr:0',
]

interface Running {
  stop(): void
  isStopping: boolean
  /** Whether it has accepted a connection. */
  isUp: boolean
  ended: Promise<unknown>
  hasEnded: boolean
  /** Its last output. */
  said: string
}

export class XPicture implements Picture {
  readonly #target: string
  readonly #log: Log
  readonly #onCrash: (crash: PictureCrash) => void
  #running: Running | undefined
  #viewers = 0
  #linger: NodeJS.Timeout | undefined

  /** `target`: the display's Unix socket. `onCrash` is called when the server has ended by itself. */
  constructor(target: string, log: Log, onCrash: (crash: PictureCrash) => void) {
    this.#target = target
    this.#log = log
    this.#onCrash = onCrash
  }

  /** Opens a connection for a viewer. Starts the server when it does not run; it ends some time after the last connection has closed. */
  async connect(signal: AbortSignal): Promise<Socket> {
    this.#viewers++
    clearTimeout(this.#linger)
    try {
      if (this.#running?.isStopping) await within('the picture server to end', READY_MS, this.#running.ended, signal)
      const running = (this.#running ??= this.#start())
      const socket = await until('the server of the picture', READY_MS, () => (running.hasEnded ? gone(running) : reach()), { everyMs: 5, signal })
      running.isUp = true
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
    const display = servePictureDisplay(DISPLAY_SOCKET, this.#target)
    const child = spawn(PROGRAM, COMMAND, { stdio: ['ignore', 'ignore', 'pipe'] })
    const running: Running = {
      isStopping: false,
      isUp: false,
      stop() {
        running.isStopping = true
        child.kill()
      },
      // When the program is missing, spawn emits an error and never closes.
      ended: once(child, 'close').catch((error: unknown) => (running.said = String(error))),
      hasEnded: false,
      said: '',
    }
    display.on('error', (error) => {
      running.said = String(error)
      child.kill()
    })
    child.stderr.on('data', (chunk: Buffer) => (running.said = (running.said + chunk.toString()).slice(-2000)))
    void running.ended.then(() => {
      running.hasEnded = true
      display.close()
      if (this.#running === running) this.#running = undefined
      if (!running.isStopping) this.#onCrash({ service: 'x0tigervnc', phase: running.isUp ? 'running' : 'startup', pid: child.pid })
      this.#log.debug({ said: running.said, code: child.exitCode, ms: Math.round(performance.now() - started) }, 'the picture server ended')
    })
    return running
  }
}

const gone = ({ said }: Running): never => {
  throw new Error(`the picture server (${PROGRAM}) ended: ${said}`)
}

function reach(): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(SOCKET)
    socket.once('connect', () => resolve(socket.off('error', onError)))
    const onError = () => resolve(undefined)
    socket.once('error', onError)
  })
}
