// Which hosts may get values.

/** Whether a host is one of these; `*.` before one stands for it and every name below. Both are as browsers write them. */
export const isAllowedHost = (host: string, allowed: readonly string[]): boolean =>
  host !== '' && allowed.some((one) => (one.startsWith('*.') ? host === one.slice(2) || host.endsWith(one.slice(1)) : host === one))
