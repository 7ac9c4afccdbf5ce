// Checks recordings with other programs: ffprobe's report, and the pixels that ffmpeg decodes.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { promisify } from 'node:util'

const run = promisify(execFile)
const LIMITS = { maxBuffer: 512 * 1024 * 1024, timeout: 120_000 }

export interface Probed {
  streams: { codec_name: string; codec_type: string; width: number; height: number; nb_read_packets: string; duration?: string; pix_fmt?: string }[]
  format: { duration: string; format_name: string }
}

/** The report of ffprobe. @throws when ffprobe prints an error */
export async function probe(file: string): Promise<Probed & { seconds: number }> {
  const { stdout, stderr } = await run('ffprobe', ['-v', 'warning', '-of', 'json', '-show_streams', '-show_format', '-count_packets', file], LIMITS)
  if (stderr.trim() !== '') throw new Error(`ffprobe: ${stderr}`)
  const probed = JSON.parse(stdout) as Probed
  return { ...probed, seconds: Number(probed.format.duration) }
}

/** The colour at one place, at `rate` moments per second, each as [red, green, blue]. */
export async function colours(file: string, rate: number, { x, y }: { x: number; y: number }): Promise<[number, number, number][]> {
  const filter = `fps=${rate}:round=up,crop=2:2:${x}:${y},scale=1:1`
  const { stdout } = (await run('ffmpeg', ['-v', 'error', '-i', file, '-vf', filter, '-f', 'rawvideo', '-pix_fmt', 'rgb24', '-'], {
    ...LIMITS,
    encoding: 'buffer',
  })) as unknown as { stdout: Buffer }
  return Array.from({ length: stdout.length / 3 }, (_, index) => [stdout[index * 3]!, stdout[index * 3 + 1]!, stdout[index * 3 + 2]!])
}

/** The start time of each frame, in seconds. */
export async function times(file: string): Promise<number[]> {
  const { stdout } = await run('ffprobe', ['-v', 'error', '-select_streams', 'v', '-show_entries', 'packet=pts_time', '-of', 'csv=p=0', file], LIMITS)
  return stdout
    .split('\n')
    .map((line) => line.replace(/,$/, ''))
    .filter(Boolean)
    .map(Number)
}

/** Decodes the whole file. @throws when ffmpeg reports an error */
export async function decode(file: string): Promise<void> {
  const { stderr } = await run('ffmpeg', ['-v', 'warning', '-i', file, '-fps_mode', 'passthrough', '-enc_time_base', '-1', '-f', 'null', '-'], LIMITS)
  if (stderr.trim() !== '') throw new Error(`ffmpeg: ${stderr}`)
}

/** The start and the end of the loud part of a video, in seconds. */
export async function loudFrom(file: string): Promise<{ from: number; to: number }> {
  const filter = 'aresample=async=1:first_pts=0,aformat=sample_fmts=s16:channel_layouts=mono:sample_rates=8000'
  const { stdout } = (await run('ffmpeg', ['-v', 'error', '-i', file, '-vn', '-af', filter, '-f', 's16le', '-'], {
    ...LIMITS,
    encoding: 'buffer',
  })) as unknown as {
    stdout: Buffer
  }
  const samples = Array.from({ length: stdout.length >> 1 }, (_, index) => Math.abs(stdout.readInt16LE(index * 2)) > 2_000)
  return { from: samples.indexOf(true) / 8000, to: samples.lastIndexOf(true) / 8000 }
}

export const keep = (file: string, content: Buffer): string => {
  writeFileSync(file, content)
  return file
}

/** Whether two colours are equal, apart from losses of video encoding. */
export const near = (a: readonly number[], b: readonly number[], by = 40): boolean => a.every((value, index) => Math.abs(value - b[index]!) <= by)
