// Adminer from Debian, with a MariaDB: the form asks for a server and a database as well as name and password.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { removePhpSessions, startMariaDb, startPhp } from '../php.ts'
import { scratchFolder, writeFiles } from '../program.ts'

const HOST = 'tables.adminer-app.test'

export async function startAdminer(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('adminer'))
  const login = { username: 'ann', password: randomPassword(), database: 'notes' }
  const database = scope.use(await startMariaDb(dir, login))
  await database.run('create table notes.shopping_list (id int primary key)')
  writeFiles(dir, { 'www/index.php': "<?php require '/usr/share/adminer/adminer.php';" })
  mkdirSync(join(dir, 'tmp'))
  const server = scope.use(await startPhp({ dir, documentRoot: '/app/www', env: { TMPDIR: '/app/tmp' } }))
  const at = `127.0.0.1:${database.port}`
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'adminer',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user: { server: at, ...login },
    async endSessions() {
      removePhpSessions(dir)
      // Without this key the cookies of "Permanent login" are invalid. The file exists only if that box was ticked.
      rmSync(join(dir, 'tmp/adminer.key'), { force: true })
    },
    proof: { url: `http://${HOST}/?server=${encodeURIComponent(at)}&username=${login.username}&db=${login.database}`, text: /shopping_list/ },
  })
}
