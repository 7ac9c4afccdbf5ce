// PHP's own web server and MariaDB from Debian's packages, for the login applications that need them.
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { LOGINS_DIR } from './app.ts'
import { inTree, runProgram, startProgram, writeFiles, type Program } from './program.ts'

const EXTENSIONS =
  'calendar ctype curl dom exif fileinfo gd gettext iconv intl mbstring mysqlnd mysqli pdo pdo_mysql pdo_sqlite phar posix simplexml sockets sqlite3 tokenizer xml xmlreader xmlwriter'

/** The SQL files that mariadb-install-db runs. */
const SYSTEM_TABLES = ['mysql_system_tables', 'mysql_performance_tables', 'mysql_system_tables_data']

/** Copies a folder of the unpacked packages into `dir`, where a test can change it. */
export function copyFromTree(dir: string, from: string, to: string): void {
  cpSync(join(LOGINS_DIR, 'debian', from), join(dir, to), { recursive: true, verbatimSymlinks: true })
}

interface Php {
  /** The scratch folder, which is /app for PHP. */
  dir: string
  /** A path inside the unpacked Debian packages. */
  documentRoot: string
  binds?: Record<string, string>
  env?: Record<string, string>
}

/** Serves a PHP application, which stores its sessions as files below `sessions` of the scratch folder. */
export async function startPhp({ dir, documentRoot, binds = {}, env = {} }: Php): Promise<Program> {
  mkdirSync(join(dir, 'sessions'), { recursive: true })
  writeFiles(dir, {
    'php.ini': [
      ...EXTENSIONS.split(' ').map((name) => `extension=${name}`),
      'session.save_path=/app/sessions',
      'date.timezone=UTC',
      'display_errors=0',
      'log_errors=1',
      'error_log=/dev/stderr',
      'memory_limit=256M',
    ].join('\n'),
  })
  const command = (port: number) => ['php8.2', '-n', '-c', '/app/php.ini', '-S', `127.0.0.1:${port}`, '-t', documentRoot]
  return startProgram({ command: (port) => inTree(dir, binds, command(port)), cwd: dir, env: { PHP_CLI_SERVER_WORKERS: '3', ...env } })
}

/** Removes all sessions that PHP stores in files. */
export function removePhpSessions(dir: string): void {
  for (const name of readdirSync(join(dir, 'sessions'))) rmSync(join(dir, 'sessions', name), { recursive: true, force: true })
}

export interface Database extends AsyncDisposable {
  port: number
  /** Runs SQL statements as the administrator; resolves with their output. */
  run(statements: string): Promise<string>
}

/** A MariaDB with one database and its user. */
export async function startMariaDb(dir: string, { database, username, password }: { database: string; username: string; password: string }): Promise<Database> {
  await using scope = new AsyncDisposableStack()
  const data = ['--no-defaults', '--datadir=/app/mysql']
  mkdirSync(join(dir, 'mysql'), { recursive: true })
  const tables = await runProgram(inTree(dir, {}, ['cat', ...SYSTEM_TABLES.map((name) => `/usr/share/mysql/${name}.sql`)]), { cwd: dir })
  const first = `create database mysql;\nuse mysql;\nset @auth_root_socket = null;\nset @current_hostname = 'localhost';\nset @skip_auth_anonymous = 1;\n${tables}`
  await runProgram(inTree(dir, {}, ['mariadbd', ...data, '--bootstrap', '--skip-name-resolve', '--innodb-buffer-pool-size=16M']), { cwd: dir, input: first })
  const server = scope.use(
    await startProgram({
      command: (port) =>
        inTree(dir, {}, [
          'mariadbd',
          ...data,
          '--bind-address=127.0.0.1',
          `--port=${port}`,
          '--socket=/app/mysql.sock',
          '--pid-file=/app/mysql.pid',
          '--skip-name-resolve',
          '--innodb-buffer-pool-size=16M',
        ]),
      cwd: dir,
    }),
  )
  const run = (statements: string) =>
    runProgram(inTree(dir, {}, ['mariadb', '--no-defaults', '--socket=/app/mysql.sock', '--user=root', '--batch']), { cwd: dir, input: statements })
  await run(
    `create database ${database}; create user '${username}'@'127.0.0.1' identified by '${password}'; grant all on ${database}.* to '${username}'@'127.0.0.1';`,
  )
  const owner = scope.move()
  return { port: server.port, run, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}
