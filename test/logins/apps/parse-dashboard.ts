// Parse Dashboard from npm: a form that scripts make, with a code of an authenticator as second step.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, randomTotpSecret, startFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'parse-dashboard.test'

export async function startParseDashboard(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('parse-dashboard'))
  const user = { username: 'ann', password: randomPassword(), totpSecret: randomTotpSecret() }
  writeFiles(dir, {
    'config.json': JSON.stringify({
      // It lists its apps without a Parse Server.
      apps: [{ serverURL: `http://${HOST}/parse`, appId: 'notes', masterKey: randomUUID(), appName: 'Notes of Ann' }],
      users: [{ user: user.username, pass: user.password, mfa: user.totpSecret, mfaAlgorithm: 'SHA1', mfaDigits: 6, mfaPeriod: 30 }],
      useEncryptedPasswords: false,
    }),
  })
  const program = join(LOGINS_DIR, 'parse-dashboard/node_modules/parse-dashboard/bin/parse-dashboard')
  const server = scope.use(
    await startProgram({
      command: (port) => [
        process.execPath,
        program,
        '--config',
        join(dir, 'config.json'),
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        '--allowInsecureHTTP',
      ],
      cwd: dir,
    }),
  )
  const front = scope.use(await startFront({ [HOST]: server.port }))
  const owner = scope.move()
  return {
    ...front,
    name: 'parse-dashboard',
    loginUrl: `http://${HOST}/login`,
    homeUrl: `http://${HOST}/`,
    user,
    // It keeps sessions in its memory.
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/apps`, text: /Notes of Ann/ },
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
