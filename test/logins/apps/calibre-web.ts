// Calibre-Web from PyPI: a Flask application with a "remember me" box and messages that disappear.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { runProgram, scratchFolder, startProgram } from '../program.ts'

const HOST = 'books.calibre-app.test'

export async function startCalibreWeb(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('calibre-web'))
  const user = { username: 'admin', password: randomPassword() }
  const cps = join(LOGINS_DIR, 'calibre-web/bin/cps')
  const path = join(dir, 'app.db')
  const env = { CALIBRE_DBPATH: dir }
  await runProgram([cps, '-p', path, '-s', `admin:${user.password}`], { cwd: dir, env })
  const database = () => new DatabaseSync(path, { timeout: 20_000 })
  const server = scope.use(
    await startProgram({
      command: (port) => {
        using opened = database()
        opened.exec(`update settings set config_port = ${port}, config_ratelimiter = 0`)
        return [cps, '-p', path, '-g', join(dir, 'gdrive.db'), '-o', join(dir, 'log'), '-i', '127.0.0.1']
      },
      cwd: dir,
      env,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'calibre-web',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      using opened = database()
      opened.exec('delete from user_session')
    },
    proof: { url: `http://${HOST}/admin/dbconfig`, text: /Location of Calibre Database/ },
  })
}
