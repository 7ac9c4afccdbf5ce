// qBittorrent's web page from Debian: a script submits the form, and the server answers with one word.
import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { randomPassword, withFront, type LoginApp } from '../app.ts'
import { inTree, scratchFolder, startProgram, writeFiles } from '../program.ts'

const HOST = 'downloads.qbittorrent-app.test'

export async function startQbittorrent(): Promise<LoginApp> {
  await using scope = new AsyncDisposableStack()
  const { dir } = scope.use(scratchFolder('qbittorrent'))
  const user = { username: 'ann', password: randomPassword() }
  const salt = randomBytes(16)
  const hash = pbkdf2Sync(user.password, salt, 100_000, 64, 'sha512')
  const server = scope.use(
    await startProgram({
      command: (port) => {
        // This configuration switches off all network traffic except its web page.
        writeFiles(dir, {
          'qBittorrent/config/qBittorrent.conf': `[LegalNotice]
Accepted=true
[BitTorrent]
Session\\DHTEnabled=false
Session\\LSDEnabled=false
Session\\PeXEnabled=false
Session\\Interface=lo
Session\\InterfaceName=lo
[Preferences]
Connection\\ResolvePeerCountries=false
WebUI\\Address=127.0.0.1
WebUI\\Port=${port}
WebUI\\UseUPnP=false
WebUI\\HostHeaderValidation=false
WebUI\\CSRFProtection=true
WebUI\\MaxAuthenticationFailCount=100
WebUI\\Username=${user.username}
WebUI\\Password_PBKDF2="@ByteArray(${salt.toString('base64')}:${hash.toString('base64')})"
`,
        })
        return inTree(dir, {}, ['qbittorrent-nox', '--profile=/app'])
      },
      cwd: dir,
    }),
  )
  return await withFront({ [HOST]: server.port }, scope, {
    name: 'qbittorrent',
    loginUrl: `http://${HOST}/`,
    homeUrl: `http://${HOST}/`,
    user,
    endSessions: () => server.restart(),
    proof: { url: `http://${HOST}/`, text: /All \(0\)/i },
  })
}
