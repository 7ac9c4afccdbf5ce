// phpMyAdmin from Debian with MariaDB: a form of name and password, with cookies that have both, encrypted.
import { randomBytes } from 'node:crypto'
import { randomPassword, startFront, type LoginApp } from '../app.ts'
import { copyFromTree, removePhpSessions, startMariaDb, startPhp } from '../php.ts'
import { scratchFolder, writeFiles } from '../program.ts'

const HOST = 'tables.phpmyadmin-app.test'

export async function startPhpMyAdmin(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('phpmyadmin'))
  const user = { username: 'ann', password: randomPassword() }
  const database = scope.use(await startMariaDb(dir, { database: 'shop_of_ann', ...user }))
  copyFromTree(dir, 'etc/phpmyadmin', 'etc')
  const configure = () =>
    writeFiles(dir, {
      'etc/config.inc.php': `<?php
$cfg['blowfish_secret'] = '${randomBytes(16).toString('hex')}';
$cfg['Servers'][1] = ['auth_type' => 'cookie', 'host' => '127.0.0.1', 'port' => '${database.port}'];
$cfg['TempDir'] = '/app/temp'; $cfg['VersionCheck'] = false; $cfg['SendErrorReports'] = 'never'; $cfg['PmaNoRelation_DisableWarning'] = true;
`,
      'temp/.keep': '',
    })
  configure()
  const server = scope.use(await startPhp({ dir, documentRoot: '/usr/share/phpmyadmin', binds: { '/etc/phpmyadmin': 'etc' } }))
  const front = scope.use(await startFront({ [HOST]: server.port }))
  const owner = scope.move()
  return {
    ...front,
    name: 'phpmyadmin',
    loginUrl: `http://${HOST}/index.php`,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      removePhpSessions(dir)
      // The key of the cookies.
      configure()
    },
    proof: { url: `http://${HOST}/index.php?route=/server/databases`, text: /shop_of_ann/ },
    [Symbol.asyncDispose]: () => owner.disposeAsync(),
  }
}
