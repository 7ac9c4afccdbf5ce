// DokuWiki from Debian: a small link to the login form, a "remember me" box, and a cookie that logs in again.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { copyFromTree, removePhpSessions, startPhp } from '../php.ts'
import { inTree, runProgram, scratchFolder, writeFiles } from '../program.ts'

const HOST = 'wiki.doku-app.test'

export async function startDokuwiki(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('dokuwiki'))
  const user = { username: 'ann', password: randomPassword() }
  copyFromTree(dir, 'etc/dokuwiki', 'etc')
  copyFromTree(dir, 'var/lib/dokuwiki', 'var')
  for (const name of ['acl.auth.php', 'users.auth.php']) rmSync(join(dir, 'etc', name), { force: true })
  const hash = (
    await runProgram(inTree(dir, {}, ['php8.2', '-n', '-r', 'echo password_hash(trim(fgets(STDIN)), PASSWORD_BCRYPT);']), { cwd: dir, input: user.password })
  ).trim()
  writeFiles(dir, {
    'etc/local.php': `<?php
$conf['title'] = 'The wiki'; $conf['useacl'] = 1; $conf['superuser'] = '@admin'; $conf['passcrypt'] = 'bcrypt'; $conf['license'] = '0';
$conf['disableactions'] = 'register,resendpwd'; $conf['updatecheck'] = 0; $conf['baseurl'] = 'http://${HOST}'; $conf['basedir'] = '/';
`,
    'etc/acl.auth.php': '# <?php exit()?>\n*\t@ALL\t1\n*\t@user\t8\n',
    'etc/users.auth.php': `# <?php exit()?>\n${user.username}:${hash}:Ann Example:ann@example.test:user\n`,
    'var/data/pages/start.txt': '====== Welcome ======\nA wiki for tests.\n',
  })
  const server = scope.use(await startPhp({ dir, documentRoot: '/usr/share/dokuwiki', binds: { '/etc/dokuwiki': 'etc', '/var/lib/dokuwiki': 'var' } }))
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'dokuwiki',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/doku.php`,
    user,
    async endSessions() {
      removePhpSessions(dir)
      // Without this key, cookies cannot log in again.
      rmSync(join(dir, 'var/data/meta/_htcookiesalt'), { force: true })
      rmSync(join(dir, 'var/data/meta/_htcookiesalt2'), { force: true })
    },
    proof: { url: `http://${HOST}/doku.php`, text: /Logged in as/ },
  })
}
