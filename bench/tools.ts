// Runs the programs that are usually spawned to control a screen: xdotool and ffmpeg.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { SCREEN, type Display } from './bare.ts'
import { whole } from './whole.ts'

const TOOL_MS = 30_000

/** Runs xdotool once and waits for its exit. */
export async function xdotool({ name }: Display, args: readonly string[], signal: AbortSignal): Promise<void> {
  const env = { ...process.env, DISPLAY: name }
  const child = spawn('xdotool', args, { stdio: ['ignore', 'ignore', 'inherit'], env, signal, timeout: TOOL_MS, killSignal: 'SIGKILL' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`xdotool ${args.join(' ').slice(0, 200)} ended with ${code}`)
}

/** Takes a picture of the display as PNG. */
export async function ffmpegShot({ name }: Display, signal: AbortSignal): Promise<Buffer> {
  const size = `${SCREEN.width}x${SCREEN.height}`
  const child = spawn(
    'ffmpeg',
    ['-loglevel', 'error', '-f', 'x11grab', '-video_size', size, '-i', name, '-frames:v', '1', '-f', 'image2pipe', '-c:v', 'png', '-'],
    { stdio: ['ignore', 'pipe', 'inherit'], signal, timeout: TOOL_MS, killSignal: 'SIGKILL' },
  )
  const [picture, [code]] = await Promise.all([whole(child.stdout), once(child, 'close')])
  if (code !== 0) throw new Error(`ffmpeg ended with ${code}`)
  return picture
}
