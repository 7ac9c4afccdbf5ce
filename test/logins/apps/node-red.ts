// Node-RED from npm: scripts render the login dialog, and the session token is in the browser's local storage.
import { createRequire } from 'node:module'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'flows.node-red.test'
const PACKAGES = join(LOGINS_DIR, 'node-red/node_modules')

export async function startNodeRed(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('node-red'))
  const user = { username: 'ann', password: randomPassword() }
  const { hashSync } = createRequire(join(PACKAGES, 'node-red/package.json'))('bcryptjs') as { hashSync(text: string, rounds: number): string }
  const users = [{ username: user.username, password: hashSync(user.password, 8), permissions: '*' }]
  const settings = {
    flowFile: 'flows.json',
    uiHost: '127.0.0.1',
    adminAuth: { type: 'credentials', users },
    telemetry: { enabled: false, updateNotification: false },
    editorTheme: { tours: false, projects: { enabled: false } },
    externalModules: { palette: { allowInstall: false } },
  }
  writeFiles(dir, {
    'settings.js': `module.exports = ${JSON.stringify(settings)}`,
    'flows.json': JSON.stringify([{ id: 'f1', type: 'tab', label: 'Flow of Ann' }]),
  })
  const server = scope.use(
    await startProgram({
      command: (port) => [
        process.execPath,
        join(PACKAGES, 'node-red/red.js'),
        '--userDir',
        dir,
        '--settings',
        join(dir, 'settings.js'),
        '--port',
        String(port),
      ],
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'node-red',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(() => rmSync(join(dir, '.sessions.json'), { force: true })),
    proof: { url: `http://${HOST}/`, text: /Flow of Ann/ },
  })
}
