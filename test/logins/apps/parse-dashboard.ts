// Parse Dashboard from npm: scripts render the form, and an authenticator's code is the second step.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, randomTotpSecret, withFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'parse-dashboard.test'

export async function startParseDashboard(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('parse-dashboard'))
  const user = { username: 'ann', password: randomPassword(), totpSecret: randomTotpSecret() }
  writeFiles(dir, {
    'config.json': JSON.stringify({
      // The dashboard lists its apps even when no Parse Server runs.
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
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'parse-dashboard',
    loginUrl: `http://${HOST}/login`,
    homeUrl: `http://${HOST}/`,
    user,
    // The server keeps its sessions in memory.
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/apps`, text: /Notes of Ann/ },
  })
}
