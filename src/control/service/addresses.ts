// Where the service listens, and by which ports and names it is reached.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Where code of apps reaches the API: the local driver passes this through to it, whatever the public address is. */
export const inside = (port: number): string => `http://127.0.0.1:${port}`

/** Where a server listens, or has listened: when it stops, what is just being started still needs to know. @throws before it listens */
export function boundAddress(server: () => Server): () => AddressInfo {
  let last: AddressInfo | undefined
  return () => {
    last = (server().address() as AddressInfo | null) ?? last
    if (!last) throw new Error('the service does not listen yet')
    return last
  }
}

/** Where the service listens, and where a proxy without TLS in front of it does: sessions reach their own URLs on both. */
export function portsOf(port: number, publicUrl: string | undefined): number[] {
  const url = publicUrl === undefined ? undefined : new URL(publicUrl)
  return [...new Set([port, ...(url?.protocol === 'http:' ? [Number(url.port || 80)] : [])])]
}

/** Where clients reach the API by a name. Agents know this machine's addresses. */
export function apiHosts(publicUrl: string | undefined): string[] {
  if (publicUrl === undefined) return []
  const { hostname, port, protocol } = new URL(publicUrl)
  return [`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`]
}
