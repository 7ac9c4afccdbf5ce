// Cockpit from Debian: a script sends name and password in a header, and the pages inside are in frames that report failed logins.
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'machine.cockpit-app.test'

export async function startCockpit(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('cockpit'))
  const user = { username: 'ann', password: randomPassword() }
  writeFiles(dir, {
    'config/cockpit/cockpit.conf': `[WebService]\nAllowUnencrypted = true\nOrigins = http://${HOST} ws://${HOST}\n[Basic]\nCommand = /app/session\n`,
    session: sessionProgram(user),
  })
  chmodSync(join(dir, 'session'), 0o755)
  const server = scope.use(
    await startProgram({
      command: (port) => inTree(dir, {}, ['/usr/lib/cockpit/cockpit-ws', '--no-tls', '--address=127.0.0.1', `--port=${port}`]),
      cwd: dir,
      env: { XDG_CONFIG_DIRS: '/app/config', XDG_RUNTIME_DIR: '/run' },
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'cockpit',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/system`, text: /Overview/ },
    notice: /1 failed login attempt/,
  })
}

/** Replaces cockpit-session, which needs root and users of the machine. It checks the password, counts failed logins, and then runs the bridge. */
const sessionProgram = ({ username, password }: { username: string; password: string }): string => `#!/usr/bin/python3
import base64, fcntl, json, os, sys, time

def send(message):
    text = b'\\n' + json.dumps(message).encode()
    sys.stdout.buffer.write(b'%d\\n' % len(text) + text)
    sys.stdout.buffer.flush()

def receive():
    size = b''
    while not size.endswith(b'\\n'):
        size += os.read(0, 1)
    text = b''
    while len(text) < int(size):
        text += os.read(0, int(size) - len(text))
    return json.loads(text)

send({'command': 'authorize', 'challenge': '*', 'cookie': 'session1'})
kind, _, value = receive().get('response', '').partition(' ')
if kind.lower() != 'basic' or base64.b64decode(value).decode() != ${JSON.stringify(`${username}:${password}`)}:
    open('/app/failed', 'a').write('x')
    send({'command': 'init', 'problem': 'authentication-failed', 'version': 1})
    sys.exit(5)
failed = os.path.getsize('/app/failed') if os.path.exists('/app/failed') else 0
# They are counted since the last log-in that succeeded.
open('/app/failed', 'w').close()
# What cockpit-session leaves in this file of memory, for the bridge, which reads it only when nobody can change it any more.
messages = os.memfd_create('cockpit login messages', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.write(messages, json.dumps({'version': 1, 'last-login-time': int(time.time()) - 3600, 'last-login-host': '127.0.0.1', 'fail-count': failed}).encode())
fcntl.fcntl(messages, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
os.dup2(messages, 3)
os.set_inheritable(3, True)
os.environ['COCKPIT_LOGIN_MESSAGES_MEMFD'] = '3'
os.execv('/usr/bin/cockpit-bridge', ['cockpit-bridge'])
`
