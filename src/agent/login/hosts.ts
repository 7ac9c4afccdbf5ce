// Which hosts may get values.

/** Whether a host is one of these; `*.` before one matches every name below it, but not itself. Both are in the form of browsers. */
export const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  host !== '' && allowed.some((one) => (one.startsWith('*.') ? host.endsWith(one.slice(1)) && host.length >= one.length : host === one))
