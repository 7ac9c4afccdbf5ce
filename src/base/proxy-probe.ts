// How an agent finds out whether its browser uses the proxy: the browser requests an address that is closed to every session.

/** A metadata service (instances/local/network.ts). A browser without the proxy gets no connection; the forwarder answers by itself and asks no proxy. */
export const PROBE_HOST = '100.100.100.200'

/** The header of every answer that does not come from a site: the reason why the site did not answer. */
export const PROXY_ERROR_HEADER = 'X-Kernel-Proxy-Error'
