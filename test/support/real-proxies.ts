// Starts proxy servers that people run: squid, tinyproxy, microsocks and proxy-chain, each with a user name and a password, on a free port of 127.0.0.1.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server as ProxyChain } from 'proxy-chain'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { freePort } from './free-port.ts'
import type { Login } from './upstreams.ts'

/** The limit of a start. Squid, which reads its files and starts a helper first, takes 0.3 s alone. */
const START_MS = 30_000

export interface RealProxy extends AsyncDisposable {
  port: number
}

const HOST = '127.0.0.1'
/** script/setup unpacks it here. */
const SQUID = join(PACKAGE_DIR, '.cob/squid')

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, HOST, () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

/** Starts a proxy server with its own files. */
async function program(
  command: (port: number, dir: string) => string[],
  files: (port: number, dir: string) => Record<string, string> = () => ({}),
): Promise<RealProxy> {
  await using scope = new AsyncDisposableStack()
  const dir = mkdtempSync(join(tmpdir(), 'cob-proxy-'))
  scope.defer(() => rmSync(dir, { recursive: true, force: true }))
  // Squid drops root, so other users need access.
  chmodSync(dir, 0o777)
  const port = await freePort()
  for (const [name, content] of Object.entries(files(port, dir))) writeFileSync(join(dir, name), content)
  const [file, ...args] = command(port, dir)
  const library = join(SQUID, 'usr/lib', process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu')
  const child = spawn(file!, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LD_LIBRARY_PATH: library } })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const ended = once(child, 'close')
  scope.defer(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const isUp = () => {
    if (child.exitCode !== null) throw new Error(`${file} has ended with ${child.exitCode}: ${said.slice(-1000)}`)
    return answers(port)
  }
  await until(`${file} to answer`, START_MS, isUp, { everyMs: 20 })
  const owner = scope.move()
  return { port, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

/** The test's helper compares plain text, because squid's password file is not what is tested. */
const squid = ({ username, password }: Login) =>
  program(
    (_, dir) => [join(SQUID, 'usr/sbin/squid'), '-N', '-f', join(dir, 'squid.conf')],
    (port, dir) => ({
      // The protocol of squid's helpers: a line with name and password, and OK or ERR.
      'login.sh': `while read -r line; do [ "$line" = '${username} ${password}' ] && echo OK || echo ERR; done\n`,
      'squid.conf': [
        `http_port ${HOST}:${port}`,
        `auth_param basic program /bin/sh ${dir}/login.sh`,
        'auth_param basic children 1 startup=1',
        'acl known proxy_auth REQUIRED',
        'http_access allow known',
        'http_access deny all',
        `pid_filename ${dir}/squid.pid`,
        `cache_log ${dir}/cache.log`,
        'access_log none',
        'cache deny all',
        'cache_mem 0 MB',
        `coredump_dir ${dir}`,
        'visible_hostname test',
        'shutdown_lifetime 0 seconds',
        'pinger_enable off',
        'netdb_filename none',
        'max_filedescriptors 1024',
        `unlinkd_program ${SQUID}/usr/lib/squid/unlinkd`,
        `mime_table ${SQUID}/usr/share/squid/mime.conf`,
        `icon_directory ${SQUID}/usr/share/squid/icons`,
        `error_directory ${SQUID}/usr/share/squid-langpack/templates`,
        '',
      ].join('\n'),
    }),
  )

const tinyproxy = ({ username, password }: Login) =>
  program(
    (_, dir) => ['tinyproxy', '-d', '-c', join(dir, 'tinyproxy.conf')],
    (port) => ({ 'tinyproxy.conf': `Port ${port}\nListen ${HOST}\nTimeout 60\nMaxClients 100\nLogLevel Error\nBasicAuth ${username} ${password}\n` }),
  )

const microsocks = ({ username, password }: Login) => program((port) => ['microsocks', '-i', HOST, '-p', String(port), '-u', username, '-P', password])

async function proxyChain(login: Login): Promise<RealProxy> {
  const server = new ProxyChain({
    port: 0,
    host: HOST,
    prepareRequestFunction: ({ username, password }) => ({ requestAuthentication: username !== login.username || password !== login.password }),
  })
  await server.listen()
  return { port: server.port, [Symbol.asyncDispose]: () => server.close(true) }
}

/** Functions that start each server with a login. */
export const REAL_PROXIES = { squid, tinyproxy, microsocks, 'proxy-chain': proxyChain } as const

/** Whether squid is installed: script/setup unpacks it on machines with apt-get. */
export const hasSquid = (): boolean => existsSync(join(SQUID, '.unpacked'))
