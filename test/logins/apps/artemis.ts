// The console of Apache ActiveMQ Artemis from Maven Central, on Java: React renders the form, and a wrong password gives its script a 403.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../support/free-port.ts'
import { LOGINS_DIR, randomPassword, withFront, type LoginApp } from '../app.ts'
import { runProgram, scratchFolder, startProgram } from '../program.ts'

const HOST = 'broker.artemis-app.test'

export async function startArtemis(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('artemis'))
  const user = { username: 'ann', password: randomPassword() }
  // The page's requests have a host name other than localhost. The server accepts that only with `--relax-jolokia`.
  const options = ['--relax-jolokia', '--require-login', '--disable-persistence', '--no-autotune', '--nio', '--java-memory', '512M']
  const noOthers = ['amqp', 'mqtt', 'stomp', 'hornetq'].map((protocol) => `--no-${protocol}-acceptor`)
  const queues = ['--host', '127.0.0.1', '--default-port', String(await freePort())]
  const who = ['--user', user.username, '--password', user.password]
  await runProgram([join(LOGINS_DIR, 'artemis/bin/artemis'), 'create', ...who, ...queues, ...options, ...noOthers, 'broker'], { cwd: dir })
  const server = scope.use(
    await startProgram({
      command: (port) => {
        const path = join(dir, 'broker/etc/bootstrap.xml')
        writeFileSync(path, readFileSync(path, 'utf8').replace(/uri="[^"]*"/, `uri="http://127.0.0.1:${port}"`))
        return [join(dir, 'broker/bin/artemis'), 'run']
      },
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'artemis',
    loginUrl: `http://${HOST}/console/login`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/console/`, text: /Acceptors/ },
  })
}
