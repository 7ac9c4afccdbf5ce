// Ungit from npm: a Knockout page asks the server whether somebody is logged in, and sends its form as JSON.
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'git.ungit-app.test'

export async function startUngit(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('ungit'))
  const user = { username: 'ann', password: randomPassword() }
  writeFiles(dir, {
    '.ungitrc': JSON.stringify({
      authentication: true,
      users: { [user.username]: user.password },
      launchBrowser: false,
      bugtracking: false,
      sendUsageStatistics: false,
      ungitVersionCheckOverride: true,
      defaultRepositories: [join(dir, 'notes-of-ann')],
    }),
  })
  const server = scope.use(
    await startProgram({
      command: (port) => [process.execPath, join(LOGINS_DIR, 'ungit/node_modules/ungit/bin/ungit'), `--port=${port}`, '--no-launchBrowser'],
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'ungit',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/`, text: /notes-of-ann/ },
  })
}
