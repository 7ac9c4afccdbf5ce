// The sound output of a session's programs: a sound server with a null sink. It starts when a program plays sound or a recording needs it.
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import type { OnCrash } from '../telemetry/crashes.ts'

/** It is ready after 50 ms on an idle machine. */
const READY_MS = 10_000

export const SINK = 'cob'

export interface Speakers {
  /** Resolves with the sound server's address, once it runs. */
  server(): Promise<string>
}

/**
 * Listens where programs look for a sound server (`<runtimeDir>/pulse/native`). The first connection starts the server, and all connections are
 * passed on to it. A silent session has no process for sound. `onCrash` is called when the server has ended.
 */
export function openSpeakers(runtimeDir: string, log: Log, onCrash: OnCrash): Speakers {
  const [door, inner] = [join(runtimeDir, 'pulse/native'), join(runtimeDir, 'pulse-server/native')]
  for (const path of [door, inner]) mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  let running: { child: ChildProcess; ready: Promise<void> } | undefined

  const ready = (): Promise<void> => {
    if (!running) {
      const child = startServer(inner)
      let isUp = false
      child.on('error', (err) => log.error({ err }, 'the sound server cannot be started'))
      child.on('close', (code) => {
        log.warn({ code }, 'the sound server ended')
        onCrash({ service: 'pulseaudio', phase: isUp ? 'running' : 'startup', pid: child.pid })
        running = undefined
      })
      // If it did not start in time, it may never; after its end the next program or recording starts another one.
      const isReady = until('the sound server', READY_MS, () => child.exitCode === null && answers(inner), { everyMs: 10 }).then(() => void (isUp = true))
      isReady.catch(() => child.kill('SIGKILL'))
      running = { child, ready: isReady }
    }
    return running.ready
  }

  const listener = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    ready().then(
      () => passOn(socket, connect(inner)),
      (err: unknown) => {
        log.error({ err }, 'the sound server did not start')
        socket.destroy()
      },
    )
  })
  listener.on('error', (err) => log.error({ err }, 'programs cannot play sound'))
  listener.listen(door)
  return { server: async () => (await ready(), `unix:${inner}`) }
}

// Sound passes through the agent, 190 KB a second while something plays: the server cannot take over a socket that is already listened on.
function passOn(from: Socket, to: Socket): void {
  for (const [one, other] of [
    [from, to],
    [to, from],
  ] as const) {
    // prettier-ignore
    one.on('error', () => other.destroy()).on('close', () => other.destroy())
    one.pipe(other)
  }
}

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path, () => {
      resolve(true)
      socket.destroy()
    })
    socket.on('error', () => resolve(false))
  })

function startServer(socket: string): ChildProcess {
  const daemon = [
    '-n',
    '--daemonize=no',
    '--use-pid-file=no',
    '--exit-idle-time=-1',
    '--disable-shm=yes',
    '--realtime=no',
    '--high-priority=no',
    '--log-level=error',
  ]
  const modules = [
    `module-null-sink sink_name=${SINK} rate=48000 channels=2 sink_properties=device.description=Speakers`,
    // Every program in the instance may play and record.
    `module-native-protocol-unix auth-anonymous=1 auth-cookie-enabled=0 socket=${socket}`,
  ]
  const own = dirname(socket)
  return spawn('pulseaudio', [...daemon, ...modules.flatMap((module) => ['-L', module])], {
    stdio: 'ignore',
    env: { ...process.env, PULSE_RUNTIME_PATH: own, PULSE_STATE_PATH: own },
  })
}
