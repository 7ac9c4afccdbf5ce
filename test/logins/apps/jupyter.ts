// Jupyter Notebook from PyPI: its page asks for a password but no user name.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { runProgram, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'notes.jupyter-app.test'

export async function startJupyter(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('jupyter'))
  const user = { password: randomPassword() }
  const python = join(LOGINS_DIR, 'jupyter/bin/python')
  const hash = (
    await runProgram([python, '-c', 'import sys; from jupyter_server.auth import passwd; print(passwd(sys.stdin.read()))'], { cwd: dir, input: user.password })
  ).trim()
  writeFiles(dir, {
    'notes/notes-of-ann.txt': 'notes',
    'jupyter_server_config.json': JSON.stringify({
      PasswordIdentityProvider: { hashed_password: hash },
      ServerApp: { allow_remote_access: true, allow_root: true, open_browser: false, root_dir: join(dir, 'notes'), port_retries: 0 },
    }),
  })
  const secret = join(dir, 'cookie-secret')
  const server = scope.use(
    await startProgram({
      command: (port) => [
        python,
        '-m',
        'notebook',
        '--ServerApp.ip=127.0.0.1',
        `--ServerApp.port=${port}`,
        `--ServerApp.cookie_secret_file=${secret}`,
        `--config=${join(dir, 'jupyter_server_config.json')}`,
      ],
      cwd: dir,
      env: { JUPYTER_RUNTIME_DIR: join(dir, 'runtime'), JUPYTER_DATA_DIR: join(dir, 'data'), JUPYTER_CONFIG_DIR: join(dir, 'config') },
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'jupyter',
    loginUrl: `http://${HOST}/login`,
    homeUrl: `http://${HOST}/`,
    user,
    // The server signs its session cookies with this secret, and creates a new one at its start.
    endSessions: () => server.restart(() => rmSync(secret)),
    proof: { url: `http://${HOST}/tree`, text: /notes-of-ann\.txt/ },
  })
}
