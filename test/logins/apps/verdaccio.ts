// Verdaccio from npm: a page of scripts whose log-in is a dialog behind a button of the header, with a token in local storage.
import { join } from 'node:path'
import { sleep } from '../../../src/base/wait.ts'
import { LOGINS_DIR, randomPassword, startFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

/** Of a token. The page lets a user go half a minute before. */
const TOKEN_SECONDS = 90
const HOST = 'packages.verdaccio.test'

export async function startVerdaccio(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('verdaccio'))
  const user = { username: 'ann', password: randomPassword() }
  const name = 'notes-of-ann'
  writeFiles(dir, {
    // Only who is logged in sees the package.
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
  const front = scope.use(await startFront({ [HOST]: server.port }))
  const owner = scope.move()
  return {
    ...front,
    name: 'verdaccio',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/`,
    user,
    // Its page reads in the token itself until when the user is logged in: one that the server refuses, as after a new secret, still shows the user's name, above a
    // list of packages without the private ones. So a session ends with the token's time.
    endSessions: () => sleep(TOKEN_SECONDS * 1000),
    proof: { url: `http://${HOST}/`, text: /notes-of-ann/ },
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
