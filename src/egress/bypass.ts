// Which hosts are reached without the proxy.

/** Whether a host is one of a list: names as they are, or `*.example.com` for every name below `example.com`. Case and a final dot do not matter. */
export function isBypassed(host: string, bypassHosts: readonly string[]): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return bypassHosts.some((entry) => {
    const listed = entry.toLowerCase()
    return listed.startsWith('*.') ? name.endsWith(listed.slice(1)) : name === listed
  })
}
