// RabbitMQ's management page from Debian: its script sends the typed password to the server, which answers a wrong one with an HTTP authentication challenge.
import { mkdirSync } from 'node:fs'
import { sleep } from '../../../src/base/wait.ts'
import { freePort } from '../../support/free-port.ts'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'queues.rabbitmq-app.test'
/** How long the page keeps the name and the password; the server has no sessions. */
const SESSION_MINUTES = 2

export async function startRabbitMq(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('rabbitmq'))
  const user = { username: 'ann', password: randomPassword() }
  const [queues, names, nodes] = [await freePort(), await freePort(), await freePort()]
  for (const name of ['mnesia', 'log']) mkdirSync(`${dir}/${name}`)
  const server = scope.use(
    await startProgram({
      command: (port) => {
        writeFiles(dir, {
          'rabbitmq.conf': `listeners.tcp.1 = 127.0.0.1:${queues}
management.tcp.ip = 127.0.0.1
management.tcp.port = ${port}
management.login_session_timeout = ${SESSION_MINUTES}
default_user = ${user.username}
default_pass = ${user.password}
`,
          enabled_plugins: '[rabbitmq_management].',
        })
        return inTree(dir, {}, ['/bin/sh', '/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin/rabbitmq-server'])
      },
      cwd: dir,
      env: {
        RABBITMQ_NODENAME: 'rabbit@localhost',
        RABBITMQ_CONFIG_FILE: '/app/rabbitmq.conf',
        RABBITMQ_ENABLED_PLUGINS_FILE: '/app/enabled_plugins',
        RABBITMQ_MNESIA_BASE: '/app/mnesia',
        RABBITMQ_LOG_BASE: '/app/log',
        RABBITMQ_DIST_PORT: String(nodes),
        ERL_EPMD_PORT: String(names),
        ERL_EPMD_ADDRESS: '127.0.0.1',
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
      },
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'rabbitmq',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => sleep(SESSION_MINUTES * 60_000 + 2_000),
    proof: { url: `http://${HOST}/`, text: /Overview/ },
  })
}
