// WordPress from Debian with MariaDB: a login page with redirect_to, a box for errors, and a check that cookies work.
import { request } from 'node:http'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { IncomingMessage } from 'node:http'
import { randomBytes } from 'node:crypto'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { startMariaDb, startPhp } from '../php.ts'
import { scratchFolder, writeFiles } from '../program.ts'

const HOST = 'blog.wordpress-app.test'

export async function startWordpress(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('wordpress'))
  const user = { username: 'ann', password: randomPassword() }
  const login = { username: 'wordpress', password: randomPassword(), database: 'wordpress' }
  const database = scope.use(await startMariaDb(dir, login))
  const keys = ['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'].flatMap((name) => [`${name}_KEY`, `${name}_SALT`])
  writeFiles(dir, {
    'etc/config-default.php': `<?php
define('DB_NAME', '${login.database}'); define('DB_USER', '${login.username}'); define('DB_PASSWORD', '${login.password}'); define('DB_HOST', '127.0.0.1:${database.port}');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true); define('WP_HOME', 'http://${HOST}'); define('WP_SITEURL', 'http://${HOST}');
${keys.map((key) => `define('${key}', '${randomBytes(24).toString('hex')}');`).join('\n')}
`,
  })
  const server = scope.use(await startPhp({ dir, documentRoot: '/usr/share/wordpress', binds: { '/etc/wordpress': 'etc' } }))
  const form = new URLSearchParams({
    weblog_title: 'The blog',
    user_name: user.username,
    admin_password: user.password,
    admin_password2: user.password,
    admin_email: 'ann@example.test',
    blog_public: '0',
    Submit: 'Install WordPress',
    language: '',
  }).toString()
  const call = request({ host: '127.0.0.1', port: server.port, path: '/wp-admin/install.php?step=2', method: 'POST', agent: false, timeout: 60_000 })
  call.setHeader('host', HOST).setHeader('content-type', 'application/x-www-form-urlencoded').setHeader('content-length', form.length)
  call.end(form)
  const [answer] = (await once(call, 'response')) as [IncomingMessage]
  const page = await text(answer)
  if (!page.includes('WordPress has been installed')) throw new Error(`WordPress answered ${answer.statusCode}: ${page.slice(-2000)} ${server.log()}`)
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'wordpress',
    loginUrl: `http://${HOST}/wp-login.php`,
    homeUrl: `http://${HOST}/`,
    user,
    async endSessions() {
      await database.run(`delete from wordpress.wp_usermeta where meta_key = 'session_tokens'`)
    },
    proof: { url: `http://${HOST}/wp-admin/profile.php`, text: /Personal Options/ },
  })
}
