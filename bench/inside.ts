// Measures programs, files and Playwright inside a session, compared to the same work on the host without Cob.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { createServer, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import type { Bench } from './bench.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service, Session } from './sessions.ts'
import { temporary } from './temporary.ts'
import { again, turns } from './turns.ts'
import { whole } from './whole.ts'

const LISTED = 10_000
const WARM_UP = 10
const MB = 1024 * 1024
const HOME = '/home/kernel'

export async function measureInside(bench: Bench, service: Service): Promise<Row[]> {
  await using session = await service.create()
  return [...(await measureExec(bench, session)), ...(await measurePlaywright(bench, session)), ...(await measureFiles(bench, session))]
}

async function measureExec(bench: Bench, session: Session): Promise<Row[]> {
  const ours = async () => {
    const { ms, result } = await timed(async () => whole(await session.call('POST', 'process/exec', { body: { command: 'true' } })))
    const { exit_code: code } = JSON.parse(result.toString()) as { exit_code: number }
    if (code !== 0) throw new Error(`true ended with ${code}`)
    return ms
  }
  const theirs = async () => (await timed(() => once(spawn('true', { stdio: 'ignore', signal: bench.signal }), 'exit'))).ms
  await turns(bench, WARM_UP, ours, theirs)
  const taken = await turns(bench, bench.counts.execs, ours, theirs)
  return [row('exec', 'exec of true', 'ms', taken.ours, { what: 'spawned on the host', samples: taken.theirs })]
}

async function measurePlaywright(bench: Bench, session: Session): Promise<Row[]> {
  const ours = async () => {
    const { ms, result } = await timed(async () => whole(await session.call('POST', 'playwright/execute', { body: { code: 'return await page.title()' } })))
    const answer = JSON.parse(result.toString()) as { success: boolean }
    if (!answer.success) throw new Error(result.toString())
    return ms
  }
  // The baseline without a worker is a Node process that connects, evaluates and exits.
  const program = `import { chromium } from 'playwright-core'
    const browser = await chromium.connectOverCDP(process.argv[1]); console.log(await browser.contexts()[0].pages()[0].title()); process.exit(0)`
  const theirs = async () => {
    const { ms, result } = await timed(() =>
      once(
        spawn(process.execPath, ['--input-type=module', '-e', program, session.cdpUrl], { cwd: PACKAGE_DIR, stdio: 'ignore', signal: bench.signal }),
        'exit',
      ),
    )
    if (result[0] !== 0) throw new Error(`the spawned Playwright ended with ${result[0]}`)
    return ms
  }
  await again(bench, WARM_UP, ours)
  const spawned = await again(bench, bench.counts.spawnedPlaywrights, theirs)
  const taken = await again(bench, bench.counts.executes, ours)
  return [row('playwright', 'playwright/execute of page.title()', 'ms', taken, { what: 'a spawned Node that connects', samples: spawned })]
}

async function measureFiles(bench: Bench, session: Session): Promise<Row[]> {
  const { counts, signal } = bench
  using folder = temporary()
  const [from, to] = [join(folder.path, 'from'), join(folder.path, 'to')]
  const bytes = counts.fileMb * MB
  await pipeline(zeros(bytes), createWriteStream(from))
  const rate = (ms: number) => bytes / MB / (ms / 1000)

  const upload = async () => {
    const path = `fs/write_file?path=${encodeURIComponent(`${HOME}/large`)}`
    const { ms } = await timed(async () => whole(await session.call('PUT', path, { stream: { content: createReadStream(from), bytes } })))
    return rate(ms)
  }
  const download = async () =>
    rate((await timed(async () => pipeline(await session.call('GET', `fs/read_file?path=${encodeURIComponent(`${HOME}/large`)}`), createWriteStream(to)))).ms)
  await using copier = await socketCopier(join(folder.path, 'socket'), to)
  const copy = async () => rate((await timed(() => copier.copy(from))).ms)
  const up = await turns(bench, counts.files, upload, copy)
  const down = await turns(bench, counts.files, download, copy)

  const made = { command: 'sh', args: ['-c', `mkdir -p ${HOME}/many && cd ${HOME}/many && seq ${LISTED} | xargs touch`] }
  await whole(await session.call('POST', 'process/exec', { body: made }))
  const list = async () => {
    const { ms, result } = await timed(async () => whole(await session.call('GET', `fs/list_files?path=${encodeURIComponent(`${HOME}/many`)}`)))
    const { length } = JSON.parse(result.toString()) as unknown[]
    if (length !== LISTED) throw new Error(`${length} files were listed, not ${LISTED}`)
    return ms
  }
  const ls = async () => {
    const body = { command: 'ls', args: ['-l', `${HOME}/many`] }
    return (await timed(async () => whole(await session.call('POST', 'process/exec', { body })))).ms
  }
  await again(bench, WARM_UP, list)
  const lists = await turns(bench, counts.lists, list, ls)
  signal.throwIfAborted()
  return [
    row('upload', `upload of ${counts.fileMb} MB`, 'MB/s', up.ours, { what: 'copied through a Unix socket', samples: up.theirs }),
    row('download', `download of ${counts.fileMb} MB`, 'MB/s', down.ours, { what: 'copied through a Unix socket', samples: down.theirs }),
    row('list', `list of ${LISTED} files`, 'ms', lists.ours, { what: 'exec of ls -l in the session', samples: lists.theirs }),
  ]
}

function* zeros(bytes: number): Generator<Buffer> {
  const piece = Buffer.alloc(MB)
  for (let left = bytes; left > 0; left -= piece.length) yield piece
}

/** A program that copies a file through a socket to another file: the baseline for a transfer. */
async function socketCopier(path: string, to: string): Promise<{ copy(from: string): Promise<void> } & AsyncDisposable> {
  let arrived = Promise.withResolvers<void>()
  const server = createServer((socket: Socket) => void pipeline(socket, createWriteStream(to)).then(() => arrived.resolve(), arrived.reject))
  server.listen(path)
  await once(server, 'listening')
  return {
    async copy(from) {
      arrived = Promise.withResolvers<void>()
      await pipeline(createReadStream(from), connect(path))
      await arrived.promise
    },
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}
