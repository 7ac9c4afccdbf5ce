// The report: a table for people and JSON for programs.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import type { Figures, Row } from './figures.ts'
import type { Reach } from './reach.ts'
import type { Others } from './usage.ts'

export interface Report {
  at: string
  quick: boolean
  seconds: number
  /** The CPU use of other programs. When it is high, the figures are unreliable. */
  others: Others
  /** The time spent waiting for other programs to be idle. */
  waitedSeconds: number
  machine: { cpu: string; cores: number; memoryGb: number; kernel: string; node: string; chromium: string; commit: string }
  rows: Row[]
  reach: Reach[]
}

export function machine(chromium: string): Report['machine'] {
  return {
    cpu: cpus()[0]!.model,
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    chromium,
    commit: commit(),
  }
}

// An unpacked archive has no commit; the report then says so.
function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: PACKAGE_DIR, stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim()
  try {
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain', '--', 'src') ? ' + changes' : '')
  } catch {
    return 'unknown'
  }
}

export function writeJson(file: string, report: Report): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`)
}

export function table({ machine, seconds, others, waitedSeconds, quick, rows, reach }: Report): string {
  const head = ['Cob', '', 'n', 'p50', 'p95', 'p99', '', 'beside it', 'n', 'p50', 'p95', 'p99', '', 'ratio: p50', 'p95', 'p99']
  const lines = rows.map(({ what, unit, cob, beside }) => [
    what,
    unit,
    ...cells(cob),
    '|',
    ...(beside ? [beside.what, ...cells(beside), '|', ...ratios(cob, beside)] : Array.from({ length: 9 }, () => '')),
  ])
  return [
    `Cob at ${machine.commit}, Chromium ${machine.chromium}, Node ${machine.node}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}`,
    `${Math.round(seconds)} s, ${Math.round(waitedSeconds)} of them waiting for a quiet machine; others used ${others.programs?.toFixed(1) ?? '?'} % of the machine, and its host ${others.host.toFixed(1)} %${quick ? '. QUICK: too few samples to believe' : ''}`,
    '',
    ...aligned([head, ...lines], [0, 1, 7]),
    '',
    ...aligned(
      reach.map(({ what, reached, yes }) => ['reach', what, reached, yes ? 'yes' : 'NO']),
      [0, 1, 3],
    ),
    '',
  ].join('\n')
}

const cells = ({ n, p50, p95, p99 }: Figures): string[] => [String(n), ...[p50, p95, p99].map(short)]

const ratios = (cob: Figures, beside: Figures): string[] => (['p50', 'p95', 'p99'] as const).map((at) => (beside[at] > 0 ? ratio(cob[at] / beside[at]) : ''))

/** Shows small ratios as fractions. */
const ratio = (value: number): string => (value < 0.1 && value > 0 ? `1/${(1 / value).toFixed(0)}` : value.toFixed(2))

const short = (value: number): string => value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)

/** Makes each column as wide as its widest cell. The columns in `left` are left-aligned, the others right-aligned. */
function aligned(rows: string[][], left: number[]): string[] {
  if (rows.length === 0) return []
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((cells) => cells[at]!.length)))
  return rows.map((cells) =>
    cells
      .map((cell, at) => (left.includes(at) ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join('  ')
      .trimEnd(),
  )
}
