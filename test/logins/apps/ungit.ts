// Ungit from npm: a page of Knockout that asks the server who is there, and sends its form as JSON.
import { join } from 'node:path'
import { LOGINS_DIR, randomPassword, startFront, type LoginApp } from '../app.ts'
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
  const front = scope.use(await startFront({ [HOST]: server.port }))
  const owner = scope.move()
  return {
    ...front,
    name: 'ungit',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/`, text: /notes-of-ann/ },
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
