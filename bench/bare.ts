// Starts Xvfb and Chromium as a user does by hand, unprivileged and with Chromium's sandbox: the baseline for Cob.
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { serviceUser } from '../src/base/user.ts'
import { within } from '../src/base/wait.ts'
import { launch, ownFolder, type Running } from './programs.ts'

export const SCREEN = { width: 1920, height: 1080 }
export const CHROMIUM = process.env.COB_CHROMIUM || '/usr/lib/chromium/chromium'
const START_MS = 30_000

/** The flags that give a browser without a window manager the size of a session's screen. */
export const FILLING = ['--window-position=0,0', `--window-size=${SCREEN.width},${SCREEN.height}`]

export interface Display extends Running {
  /** The value of DISPLAY. */
  name: string
}

export interface Chromium extends Running {
  cdpUrl: string
}

/** Starts an Xvfb with the usual screen size; resolves when it accepts connections. */
export async function startDisplay(signal: AbortSignal): Promise<Display> {
  makeSocketFolder()
  await using scope = new AsyncDisposableStack()
  const home = scope.use(ownFolder())
  const args = ['-screen', '0', `${SCREEN.width}x${SCREEN.height}x24`, '-displayfd', '3', '-ac', '-nolisten', 'tcp', '-noreset']
  const { child, ...running } = launch('Xvfb', args, home.path, {}, ['ignore', 'ignore', 'ignore', 'pipe'])
  scope.use(running)
  const [number] = (await within('Xvfb', START_MS, once(child.stdio[3] as Readable, 'data'), signal)) as [Buffer]
  const owner = scope.move()
  return { pids: () => running.pids(), name: `:${number.toString().trim()}`, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

// Creates the folder for the sockets of all displays. If it is missing, only root can create it with the right permissions.
function makeSocketFolder(): void {
  if (existsSync('/tmp/.X11-unix')) return
  mkdirSync('/tmp/.X11-unix')
  chmodSync('/tmp/.X11-unix', 0o1777)
}

/** Starts Chromium with a new profile, or with the folder `profile` in the folder `own`. Resolves when Chromium has printed its CDP address. */
export async function startChromium(display: Display, flags: readonly string[], signal: AbortSignal, own?: { path: string }): Promise<Chromium> {
  await using scope = new AsyncDisposableStack()
  const home = own ?? scope.use(ownFolder())
  const args = ['--remote-debugging-port=0', `--user-data-dir=${home.path}/profile`, '--no-first-run', ...flags, 'about:blank']
  const { child, ...running } = launch(CHROMIUM, args, home.path, { DISPLAY: display.name }, ['ignore', 'ignore', 'pipe'])
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
  return { pids: () => running.pids(), cdpUrl, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/**
 * A program that Playwright can launch as Chromium. Playwright creates the profile's folder as its own user, and Chromium's sandbox refuses root. So for root this is
 * a script that changes the folder's owner and drops root.
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
