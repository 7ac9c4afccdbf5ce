// Verdaccio from npm: its login is a dialog that a button in the header opens, and the token is in local storage.
import { join } from 'node:path'
import { sleep } from '../../../src/base/wait.ts'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

/** The lifetime of a token. The page logs a user out half a minute earlier. */
const TOKEN_SECONDS = 90
const HOST = 'packages.verdaccio.test'

export async function startVerdaccio(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('verdaccio'))
  const user = { username: 'ann', password: randomPassword() }
  const name = 'notes-of-ann'
  writeFiles(dir, {
    // Only a logged-in user sees the package.
    'config.yaml': `
storage: ${dir}/storage
auth: { htpasswd: { file: ${dir}/htpasswd, max_users: 1, algorithm: bcrypt, rounds: 8 } }
uplinks: {}
packages: { '**': { access: $authenticated, publish: $authenticated } }
security: { web: { sign: { expiresIn: '${TOKEN_SECONDS}s' } } }
log: { type: stdout, format: json, level: warn }
`,
    [`storage/${name}/package.json`]: JSON.stringify({
      name,
      versions: { '1.0.0': { name, version: '1.0.0', description: 'a private package', dist: { tarball: `http://${HOST}/${name}/-/${name}-1.0.0.tgz` } } },
      'dist-tags': { latest: '1.0.0' },
      time: { '1.0.0': '2026-01-01T00:00:00.000Z', modified: '2026-01-01T00:00:00.000Z', created: '2026-01-01T00:00:00.000Z' },
      _distfiles: {},
      _attachments: {},
      _uplinks: {},
      _rev: '1-0',
      _id: name,
      readme: '',
    }),
    'storage/.verdaccio-db.json': JSON.stringify({ list: [name], secret: '' }),
  })
  const server = scope.use(
    await startProgram({
      command: (port) => [
        process.execPath,
        join(LOGINS_DIR, 'verdaccio/node_modules/verdaccio/bin/verdaccio'),
        '--config',
        join(dir, 'config.yaml'),
        '--listen',
        `http://127.0.0.1:${port}`,
      ],
      cwd: dir,
    }),
  )
  const made = await fetch(`http://127.0.0.1:${server.port}/-/user/org.couchdb.user:${user.username}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: user.username, password: user.password }),
  })
  if (made.status !== 201) throw new Error(`Verdaccio answered ${made.status} to its new user: ${await made.text()}`)
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'verdaccio',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/`,
    user,
    // The page shows the user's name until the token expires, even when the server refuses the token. So a session ends only when its token expires.
    endSessions: () => sleep(TOKEN_SECONDS * 1000),
    proof: { url: `http://${HOST}/`, text: /notes-of-ann/ },
  })
}
