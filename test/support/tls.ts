// A TLS proxy in front of a service, with a self-signed certificate.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { promisify } from 'node:util'

export async function tlsInFrontOf(url: string): Promise<{ url: string } & AsyncDisposable> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-tls-'))
  const [key, cert] = [join(dir, 'key'), join(dir, 'cert')]
  const made = ['-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost', '-days', '1', '-keyout', key, '-out', cert]
  await promisify(execFile)('openssl', ['req', '-x509', ...made])
  const open = new Set<Socket>()
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (client) => {
    const service = connect(Number(new URL(url).port), '127.0.0.1')
    open.add(client.on('error', () => service.destroy()).on('close', () => open.delete(client)))
    client.pipe(service.on('error', () => client.destroy())).pipe(client)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      rmSync(dir, { recursive: true })
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
