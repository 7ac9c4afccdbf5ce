// Miniflux, built from its Go module, with Postgres: Go renders the form, which has a "remember me" box and a button for passkeys.
import { join } from 'node:path'
import pg from 'pg'
import { ownPostgres } from '../../support/postgres.ts'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { scratchFolder, startProgram } from '../program.ts'

const HOST = 'news.miniflux-app.test'

export async function startMiniflux(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('miniflux'))
  const user = { username: 'ann', password: randomPassword() }
  const { host } = await ownPostgres('miniflux', scope)
  const run = async (database: string, statement: string) => {
    const client = new pg.Client({ host, user: 'cob', database })
    await client.connect()
    try {
      await client.query(statement)
    } finally {
      await client.end()
    }
  }
  await run('postgres', 'create database miniflux')
  const server = scope.use(
    await startProgram({
      command: (port) => ['env', `LISTEN_ADDR=127.0.0.1:${port}`, join(LOGINS_DIR, 'miniflux/miniflux.app')],
      cwd: dir,
      env: {
        DATABASE_URL: `user=cob dbname=miniflux sslmode=disable host=${host}`,
        BASE_URL: `http://${HOST}`,
        RUN_MIGRATIONS: '1',
        CREATE_ADMIN: '1',
        ADMIN_USERNAME: user.username,
        ADMIN_PASSWORD: user.password,
        DISABLE_SCHEDULER_SERVICE: '1',
      },
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'miniflux',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => run('miniflux', 'delete from web_sessions'),
    proof: { url: `http://${HOST}/settings`, text: /ann/ },
  })
}
