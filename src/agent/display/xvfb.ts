// The X server of an instance: Xvfb with its framebuffer in a file. Started once; ends with the agent's sandbox.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { within } from '../../base/wait.ts'

/** Xvfb compiles its keymap first; 40-340 ms were seen. */
const XVFB_READY_MS = 20_000

/** The largest screen, in pixels; RandR may choose any size up to it. */
export interface MaxScreen {
  width: number
  height: number
}

export interface XServer {
  /** As in DISPLAY. */
  display: string
  /** The framebuffer: an XWD file whose pixels change in place. */
  framebuffer: string
  /** Resolves when the server has ended, which nothing in an instance survives. */
  exited: Promise<void>
  kill(): void
}

/** Starts Xvfb and resolves when it takes connections. `dir` is a folder in memory for the framebuffer. */
export async function startXvfb(dir: string, max: MaxScreen, signal: AbortSignal): Promise<XServer> {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  mkdirSync('/tmp/.X11-unix', { recursive: true, mode: 0o1777 })
  const child = spawn('Xvfb', [':0', '-screen', '0', `${max.width}x${max.height}x24`, '-fbdir', dir, '-nolisten', 'tcp', '-displayfd', '3', '-ac', '-noreset', '-dpi', '96'], {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const exited = once(child, 'close').then(() => {})
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`Xvfb ended with ${code}`)
  })
  failed.catch(() => {})
  await within('Xvfb', XVFB_READY_MS, Promise.race([once(child.stdio[3]!, 'data'), failed]), signal)
  return { display: ':0', framebuffer: join(dir, 'Xvfb_screen0'), exited, kill: () => child.kill('SIGTERM') }
}
