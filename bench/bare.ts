// Xvfb and Chromium as anyone would start them by hand, unprivileged and with Chromium's sandbox on: what Cob is measured against.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { descendantsOf, killAll, nameProcess } from '../src/base/processes.ts'
import { serviceUser } from '../src/base/user.ts'
import { within } from '../src/base/wait.ts'

export const SCREEN = { width: 1920, height: 1080 }
export const CHROMIUM = process.env.COB_CHROMIUM || '/usr/lib/chromium/chromium'
const START_MS = 60_000

/** As big as a session's screen, for a browser that has no window manager to fill it. */
export const FILLING = ['--window-position=0,0', `--window-size=${SCREEN.width},${SCREEN.height}`]

export interface Running extends AsyncDisposable {
  pid: number
}

export interface Display extends Running {
  /** As in DISPLAY. */
  name: string
}

export interface Chromium extends Running {
  cdpUrl: string
}

/** A folder that the unprivileged user owns. */
function ownFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'cob-bench-'))
  const user = serviceUser()
  if (user) chownSync(path, user.uid, user.gid)
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

function launch(file: string, args: string[], env: NodeJS.ProcessEnv, stdio: StdioOptions): { child: ChildProcess } & Running {
  const user = serviceUser()
  const child = spawn(file, args, {
    cwd: '/',
    detached: true,
    stdio,
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', ...env },
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  child.on('error', () => {})
  const main = nameProcess(child.pid ?? 0)
  if (!main) throw new Error(`${file} could not be started`)
  return {
    child,
    pid: main.pid,
    async [Symbol.asyncDispose]() {
      const below = descendantsOf(main.pid)
        .map(nameProcess)
        .filter((name) => name !== undefined)
      await killAll([main, ...below])
    },
  }
}

/** Starts an Xvfb with a screen of the usual size and resolves when it takes connections. */
export async function startDisplay(signal: AbortSignal): Promise<Display> {
  makeSocketFolder()
  const { child, ...running } = launch(
    'Xvfb',
    ['-screen', '0', `${SCREEN.width}x${SCREEN.height}x24`, '-displayfd', '3', '-ac', '-nolisten', 'tcp', '-noreset'],
    {},
    ['ignore', 'ignore', 'ignore', 'pipe'],
  )
  await using scope = new AsyncDisposableStack()
  scope.use(running)
  const [number] = (await within('Xvfb', START_MS, once(child.stdio[3] as Readable, 'data'), signal)) as [Buffer]
  const owner = scope.move()
  return { pid: running.pid, name: `:${number.toString().trim()}`, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

// Every display of the machine has its socket here. Where none has run yet, only root can make it as it has to be.
function makeSocketFolder(): void {
  if (existsSync('/tmp/.X11-unix')) return
  mkdirSync('/tmp/.X11-unix')
  chmodSync('/tmp/.X11-unix', 0o1777)
}

/** Starts Chromium with a fresh profile and resolves when it says where its CDP is. */
export async function startChromium(display: Display, flags: readonly string[], signal: AbortSignal): Promise<Chromium> {
  await using scope = new AsyncDisposableStack()
  const home = scope.use(ownFolder())
  const args = ['--remote-debugging-port=0', `--user-data-dir=${home.path}/profile`, '--no-first-run', ...flags, 'about:blank']
  const { child, ...running } = launch(CHROMIUM, args, { DISPLAY: display.name, HOME: home.path }, ['ignore', 'ignore', 'pipe'])
  scope.use(running)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let said = ''
  createInterface({ input: child.stderr! }).on('line', (line) => {
    const found = /DevTools listening on (ws:\S+)/.exec(line)
    if (found) resolve(found[1]!)
    else said = `${said}${line}\n`.slice(-2000)
  })
  child.on('exit', (code) => reject(new Error(`Chromium ended with ${code}: ${said}`)))
  const cdpUrl = await within('Chromium', START_MS, promise, signal)
  const owner = scope.move()
  return { pid: running.pid, cdpUrl, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/**
 * A program that Playwright can launch as Chromium. Playwright makes the profile's folder as the user it runs as, and Chromium's
 * sandbox refuses root; so for root a script stands between that hands the folder over and drops the privileges.
 */
export function launchable(): { path: string; home: string } & Disposable {
  const folder = ownFolder()
  const user = serviceUser()
  if (!user) return { path: CHROMIUM, home: folder.path, [Symbol.dispose]: () => folder[Symbol.dispose]() }
  const path = join(folder.path, 'chromium')
  const script = `#!/bin/sh
for arg; do case $arg in --user-data-dir=*) chown ${user.uid}:${user.gid} "\${arg#*=}" ;; esac; done
exec setpriv --reuid ${user.uid} --regid ${user.gid} --clear-groups --inh-caps=-all -- ${CHROMIUM} "$@"
`
  writeFileSync(path, script)
  chmodSync(path, 0o755)
  return { path, home: folder.path, [Symbol.dispose]: () => folder[Symbol.dispose]() }
}
