// Deluge's web page from Debian: a dialog of a script library asks only for a password, over a page that waits behind it.
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'torrents.deluge-app.test'

export async function startDeluge(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('deluge'))
  const user = { password: randomPassword() }
  const salt = randomBytes(16).toString('hex')
  // The file has two JSON documents: its format version, and the settings.
  const version = JSON.stringify({ file: 2, format: 1 })
  const settings = {
    pwd_salt: salt,
    pwd_sha1: createHash('sha1').update(salt).update(user.password).digest('hex'),
    first_login: false,
    show_session_speed: false,
    sessions: {},
    default_daemon: '',
    https: false,
  }
  writeFiles(dir, { 'config/web.conf': version + JSON.stringify(settings) })
  const server = scope.use(
    await startProgram({
      command: (port) => inTree(dir, {}, ['deluge-web', '--do-not-daemonize', '--config', '/app/config', '--interface', '127.0.0.1', '--port', `${port}`]),
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'deluge',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () =>
      server.restart(() => {
        const path = join(dir, 'config/web.conf')
        const now = JSON.parse(readFileSync(path, 'utf8').slice(readFileSync(path, 'utf8').indexOf('}') + 1)) as object
        writeFileSync(path, version + JSON.stringify({ ...now, sessions: {} }))
      }),
    proof: { url: `http://${HOST}/`, text: /Connection Manager[\s\S]*Not Connected|Not Connected[\s\S]*Connection Manager/ },
  })
}
