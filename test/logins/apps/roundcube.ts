// Roundcube from Debian, with users in Dovecot: a form in a table, whose third field is the name of the mail server.
import { mkdirSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { copyFromTree, startPhp } from '../php.ts'
import { inTree, runProgram, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'mail.roundcube-app.test'

export async function startRoundcube(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('roundcube'))
  const user = { username: 'ann@example.test', password: randomPassword() }
  for (const name of ['mail', 'dovecot', 'temp', 'logs']) mkdirSync(join(dir, name))
  const imap = scope.use(
    await startProgram({
      command: (port) => {
        writeFiles(dir, { 'dovecot.conf': dovecotConfig(port), users: `${user.username}:{PLAIN}${user.password}::::::\n` })
        return inTree(dir, {}, ['dovecot', '-F', '-c', '/app/dovecot.conf'])
      },
      cwd: dir,
    }),
  )
  copyFromTree(dir, 'etc/roundcube', 'config')
  writeFiles(dir, {
    'config/config.inc.php': `<?php
$config['db_dsnw'] = 'sqlite:////app/roundcube.db?mode=0600';
$config['imap_host'] = '127.0.0.1:${imap.port}'; $config['smtp_host'] = '127.0.0.1:1';
$config['des_key'] = '${randomBytes(12).toString('hex')}'; $config['plugins'] = []; $config['skin'] = 'elastic';
$config['temp_dir'] = '/app/temp/'; $config['log_dir'] = '/app/logs/'; $config['product_name'] = 'The mail'; $config['enable_spellcheck'] = false;
`,
  })
  const schema = await runProgram(inTree(dir, {}, ['cat', '/usr/share/roundcube/SQL/sqlite.initial.sql']), { cwd: dir })
  const path = join(dir, 'roundcube.db')
  {
    using database = new DatabaseSync(path)
    database.exec(schema)
  }
  const server = scope.use(await startPhp({ dir, documentRoot: '/usr/share/roundcube', env: { ROUNDCUBE_CONFIG_DIR: '/app/config' } }))
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'roundcube',
    loginUrl: `http://${HOST}/?_task=login`,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      using database = new DatabaseSync(path, { timeout: 20_000 })
      database.exec('delete from session')
    },
    proof: { url: `http://${HOST}/?_task=settings`, text: /Preferences/ },
  })
}

/** Dovecot without root: one user for everything, no chroot. */
const dovecotConfig = (port: number): string => `
protocols = imap
listen = 127.0.0.1
base_dir = /app/dovecot
state_dir = /app/dovecot
default_internal_user = cob
default_internal_group = cob
default_login_user = cob
log_path = /dev/stderr
ssl = no
disable_plaintext_auth = no
first_valid_uid = 1000
mail_location = maildir:/app/mail/%u
passdb {
  driver = passwd-file
  args = /app/users
}
userdb {
  driver = static
  args = uid=1000 gid=1000 home=/app/mail/%u
}
service imap-login {
  chroot =
  inet_listener imap {
    port = ${port}
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
service stats {
  chroot =
}
`
