// Runs a build's programs: each has a timeout, its output goes to the logs, and its process group is killed at the end.
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { endProcessGroup, killProcessGroup } from '../base/processes.ts'
import { WaitTimeout, within } from '../base/wait.ts'
import type { RunnerSpec } from './contract.ts'
import { exitCode } from './deaths.ts'
import type { Events } from './events.ts'
import type { RunnerPaths } from './limits.ts'
import { endsWithin, logOutput } from './app-pipes.ts'

/** The reason of a failed build, in words for the app's author. */
export class BuildFailed extends Error {}

export interface ToolOptions {
  /** Its name in messages: "npm ci". */
  what: string
  cwd: string
  ms: number
  env?: Record<string, string | undefined>
  /** It is the app itself, so its own variables take precedence. */
  app?: boolean
  /** Receives the output, which is then not logged. */
  take?: (line: string) => void
  /** Receives the data of descriptor 3, a pipe that the program writes to. */
  reports?: (pipe: Readable) => void
}

export interface ToolEnd {
  code: number
  /** Whether it was killed because of its timeout. */
  late: boolean
  said: Said
}

/** Lines of a tool's output that may explain its failure. */
export class Said {
  readonly #odd: string[] = []
  readonly #last: string[] = []

  add(line: string): void {
    const plain = stripVTControlCharacters(line).trim().slice(0, MAX_WORDS)
    if (plain === '' || NOISE.test(plain)) return
    if (ODD_LINE.test(plain) && this.#odd.push(plain) > FIRST + LAST) this.#odd.splice(FIRST, 1)
    if (this.#last.push(plain) > FIRST) this.#last.shift()
  }

  get last(): string {
    return this.#last.at(-1) ?? ''
  }

  /** The reason as the end of a sentence. */
  get words(): string {
    const lines = this.#odd.length > 0 ? this.#odd : this.#last
    return lines.length > 0 ? `: ${lines.join('\n')}` : ''
  }
}

/** The path of certificates on Debian, and so in the sandbox. The file includes certificates that an administrator added, such as a company proxy's. */
const CA_FILE = '/etc/ssl/certs/ca-certificates.crt'

/** How many of a failed tool's first and last lines go into the error message. */
const FIRST = 5
const LAST = 3
const MAX_WORDS = 500
/** When a program has ended, its child processes may print for this long. */
const LINGER_MS = 1_000

const ODD_LINE =
  /\b(error|err!|failed|failure|fatal|cannot|can't|could not|not found|missing|no such|unable|conflict|outdated|invalid|denied|mismatch(ed)?|match|sync|modified)\b/i
/** Lines of package managers that do not help to explain a failure. */
const NOISE =
  /complete log of this run|^npm error\s*$|^npm error code \S+$|npm help |^npm error\s+(-|Set to|Clean install|Options|Usage|aliases)|^npm notice|^npm warn|^warning|^\W*WARN|^\[notice\]|Visit https:\/\/yarnpkg\.com|For help, see/i

export class Tools {
  readonly signal: AbortSignal
  /** The download cache, shared by all builds. */
  readonly cache: string
  readonly #spec: RunnerSpec
  readonly #events: Events
  readonly #base: Record<string, string>
  readonly #secrets: string[] = []

  constructor(spec: RunnerSpec, paths: RunnerPaths, scratch: string, events: Events, signal: AbortSignal) {
    this.signal = signal
    this.cache = paths.cache
    this.#spec = spec
    this.#events = events
    this.#base = baseEnvironment(paths, scratch)
  }

  /** Adds a line of our own to the build's logs. */
  say(line: string): void {
    this.#events.log(this.mask(`cob: ${line}`))
  }

  /** From now on, masks `secret` in all log lines. */
  keepSecret(secret: string): void {
    if (secret !== '') this.#secrets.push(secret)
  }

  mask(line: string): string {
    return this.#secrets.reduce((text, secret) => text.replaceAll(secret, '***'), line)
  }

  /**
   * Runs a program until it exits. Its environment has the app's variables (a registry's token, for example) without the app's key. Variables that
   * keep tools inside the sandbox override them.
   */
  async run(file: string, args: readonly string[], { what, cwd, ms, env, app, take, reports }: ToolOptions): Promise<ToolEnd> {
    this.signal.throwIfAborted()
    this.say(what)
    const child = spawn('/bin/sh', ['-c', 'exec "$@" 2>&1', 'sh', file, ...args], {
      cwd,
      env: app ? { ...ownEnvironment(), ...this.#spec.env, ...env } : { ...this.#spec.env, KERNEL_API_KEY: undefined, ...this.#base, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore', reports ? 'pipe' : 'ignore', 'ignore'],
    })
    const said = new Said()
    const printed = logOutput(child.stdout!, this.#events, {
      change: (line) => (take ? undefined : this.mask(line)),
      see: (line) => {
        said.add(this.mask(line))
        take?.(line)
      },
    })
    reports?.(child.stdio[3] as Readable)
    const exited = new Promise<number>((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', (status, signal) => resolve(exitCode(status, signal)))
    })
    let late = false
    try {
      const code = await within(what, ms, exited, this.signal).catch((error: unknown) => {
        late = error instanceof WaitTimeout
        // A process that the kernel ends late was killed all the same, and its caller gets that reason.
        return endProcessGroup(what, child, exited).catch(() => exitCode(null, 'SIGKILL'))
      })
      if (!(await endsWithin(printed, LINGER_MS))) {
        killProcessGroup(child)
        // A process that left the group may still hold the pipe: stop waiting for it. But wait for a paused pipe, which has unread output, until the build ends.
        while (!(await endsWithin(printed, LINGER_MS))) if (this.signal.aborted || !child.stdout!.isPaused()) child.stdout!.destroy()
      }
      this.signal.throwIfAborted()
      return { code, late, said }
    } finally {
      killProcessGroup(child)
    }
  }

  /** Like {@link run}, but fails the build when the program fails. */
  async must(file: string, args: readonly string[], options: ToolOptions): Promise<void> {
    const { code, late, said } = await this.run(file, args, options)
    if (late) throw new BuildFailed(`"${options.what}" took longer than ${options.ms / 1000} s`)
    if (code === 137) throw new BuildFailed(`"${options.what}" was killed; most likely it used more memory than its limit of ${this.#spec.memoryMb} MiB`)
    if (code !== 0) throw new BuildFailed(`"${options.what}" failed with exit code ${code}${said.words}`)
  }
}

/** npm's command line, from our own dependencies. */
export const NPM = join(dirname(createRequire(import.meta.url).resolve('npm/package.json')), 'bin/npm-cli.js')

/** The variables that every process of the sandbox gets; the others are only for the runner. */
function ownEnvironment(): Record<string, string> {
  return Object.fromEntries(Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined && !/^(COB_|NODE_)/.test(entry[0])))
}

function baseEnvironment({ cache }: RunnerPaths, scratch: string): Record<string, string> {
  const [temporary, bin] = [join(scratch, 'tmp'), join(scratch, 'bin')]
  for (const folder of [temporary, bin]) mkdirSync(folder, { recursive: true })
  // Scripts of packages call npm by its name.
  for (const name of ['npm', 'npx']) {
    const cli = join(dirname(NPM), `${name}-cli.js`)
    writeFileSync(join(bin, name), `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`)
    chmodSync(join(bin, name), 0o755)
  }
  const path = [dirname(process.execPath), bin, ...(process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin').split(delimiter)]
  return {
    ...ownEnvironment(),
    PATH: [...new Set(path)].join(delimiter),
    TMPDIR: temporary,
    CI: '1',
    npm_config_cache: join(cache, 'npm'),
    npm_config_update_notifier: 'false',
    npm_config_fund: 'false',
    npm_config_audit: 'false',
    npm_config_progress: 'false',
    YARN_CACHE_FOLDER: join(cache, 'yarn'),
    YARN_ENABLE_TELEMETRY: '0',
    BUN_INSTALL_CACHE_DIR: join(cache, 'bun'),
    PIP_CACHE_DIR: join(cache, 'pip'),
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PIP_NO_INPUT: '1',
    UV_CACHE_DIR: join(cache, 'uv'),
    UV_LINK_MODE: 'copy',
    UV_NO_PROGRESS: '1',
    GIT_TERMINAL_PROMPT: '0',
    NODE_USE_SYSTEM_CA: '1',
    UV_SYSTEM_CERTS: '1',
    ...(existsSync(CA_FILE) ? Object.fromEntries(CA_VARIABLES.map((name) => [name, CA_FILE])) : {}),
  }
}

const CA_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'PIP_CERT', 'SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'GIT_SSL_CAINFO']
