// Which hosts may get values.

/** Whether a host is one of these; `*.` before one stands for every name below it, and not for itself. Both are as browsers write them. */
export const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  host !== '' && allowed.some((one) => (one.startsWith('*.') ? host.endsWith(one.slice(1)) && host.length >= one.length : host === one))
