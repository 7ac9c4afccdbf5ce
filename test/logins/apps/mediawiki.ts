// MediaWiki from Debian, in Ukrainian: a link on a crowded page leads to the form, which has a menu and a search field beside it.
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { removePhpSessions, startPhp } from '../php.ts'
import { inTree, runProgram, scratchFolder } from '../program.ts'

const HOST = 'wiki.media-app.test'
const LANGUAGE = 'uk'

export async function startMediaWiki(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('mediawiki'))
  const user = { username: 'Ann', password: randomPassword() }
  for (const name of ['etc', 'data', 'cache']) mkdirSync(join(dir, name))
  const binds = { '/etc/mediawiki': 'etc' }
  const server = scope.use(await startPhp({ dir, documentRoot: '/var/lib/mediawiki', binds, env: { MW_CONFIG_FILE: '/app/etc/LocalSettings.php' } }))
  const php = ['php8.2', '-n', '-c', '/app/php.ini']
  await runProgram(
    inTree(dir, binds, [
      ...php,
      '/usr/share/mediawiki/maintenance/install.php',
      '--dbtype=sqlite',
      '--dbpath=/app/data',
      '--dbname=wiki',
      `--server=http://${HOST}`,
      '--scriptpath=',
      `--lang=${LANGUAGE}`,
      '--confpath=/app/etc',
      '--with-extensions=',
      `--pass=${user.password}`,
      'Wiki',
      user.username,
    ]),
    { cwd: dir },
  )
  appendFileSync(join(dir, 'etc/LocalSettings.php'), "\n$wgCacheDirectory = '/app/cache';\n")
  const run = (file: string, statement: string) => {
    using database = new DatabaseSync(join(dir, 'data', file), { timeout: 20_000 })
    database.exec(statement)
  }
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'mediawiki',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/index.php`,
    user,
    async endSessions() {
      removePhpSessions(dir)
      // Change the token that cookies are checked against, and delete the sessions.
      run('wiki.sqlite', "update user set user_token = '0123456789abcdef0123456789abcdef'")
      run('wikicache.sqlite', 'delete from objectcache')
    },
    proof: { url: `http://${HOST}/index.php?title=Special:Preferences`, text: /Ann/ },
  })
}
