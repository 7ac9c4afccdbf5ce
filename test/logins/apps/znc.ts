// ZNC's web administration from Debian: a C++ program renders the form, which is in the side column of every page.
import { createHash } from 'node:crypto'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'bouncer.znc-app.test'
const SALT = 'abcdefghijklmnopqrst'

export async function startZnc(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('znc'))
  const user = { username: 'ann', password: randomPassword() }
  const hash = createHash('sha256')
    .update(user.password + SALT)
    .digest('hex')
  const server = scope.use(
    await startProgram({
      command: (port) => {
        writeFiles(dir, {
          'znc/configs/znc.conf': `Version = 1.8.2
LoadModule = webadmin
ProtectWebSessions = false
<Listener web>
  Port = ${port}
  IPv4 = true
  IPv6 = false
  SSL = false
  AllowIRC = false
  AllowWeb = true
  Host = 127.0.0.1
  URIPrefix = /
</Listener>
<User ${user.username}>
  Admin = true
  Nick = ann
  <Pass password>
    Method = sha256
    Hash = ${hash}
    Salt = ${SALT}
  </Pass>
</User>
`,
        })
        return inTree(dir, {}, ['znc', '--foreground', '--allow-root', '--datadir', '/app/znc'])
      },
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'znc',
    loginUrl: undefined,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/`, text: /Global Settings/ },
  })
}
