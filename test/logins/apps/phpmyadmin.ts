// phpMyAdmin from Debian with MariaDB: a form with name and password, and cookies that contain both, encrypted.
import { randomBytes } from 'node:crypto'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
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
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'phpmyadmin',
    loginUrl: `http://${HOST}/index.php`,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      removePhpSessions(dir)
      // This writes a new key for the cookies.
      configure()
    },
    proof: { url: `http://${HOST}/index.php?route=/server/databases`, text: /shop_of_ann/ },
  })
}
