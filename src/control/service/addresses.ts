// The addresses at which the service listens, and the ports and names by which clients reach it.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The address at which code of apps reaches the API: the local driver passes it through, whatever the public address is. */
export const inside = (port: number): string => `http://127.0.0.1:${port}`

/** The address at which a server listens, or has listened: during a stop, instances that are just starting still need it. @throws before it listens */
export function boundAddress(server: () => Server): () => AddressInfo {
  let last: AddressInfo | undefined
  return () => {
    last = (server().address() as AddressInfo | null) ?? last
    if (!last) throw new Error('the service does not listen yet')
    return last
  }
}

/** The port of the service, and that of a proxy without TLS in front of it: sessions reach their own URLs at both. */
export function portsOf(port: number, publicUrl: string | undefined): number[] {
  const url = publicUrl === undefined ? undefined : new URL(publicUrl)
  return [...new Set([port, ...(url?.protocol === 'http:' ? [Number(url.port || 80)] : [])])]
}

/** The names with ports at which clients reach the API. Agents already know this machine's addresses. */
export function apiHosts(publicUrl: string | undefined): string[] {
  if (publicUrl === undefined) return []
  const { hostname, port, protocol } = new URL(publicUrl)
  return [`${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`]
}
