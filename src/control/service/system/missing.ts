// The calls that the newest release of the SDKs has, and this version of Cob does not have yet.
import { readFileSync } from 'node:fs'
import { fault, type Fault } from '../../../http/fault.ts'
import type { Contract } from '../../../http/route.ts'

/** A call of the SDKs, by its name there. */
export interface Operation {
  name: string
  method: string
  path: string
}

/** All calls of one release. Made from the published package by test/data/python/operations.py. */
export const SDK: { release: string; operations: readonly Operation[] } = JSON.parse(
  readFileSync(new URL('sdk-operations.json', import.meta.url), 'utf8'),
) as typeof SDK

/** Those that no route of the contracts answers. */
export function missingFrom(contracts: readonly Contract[]): Operation[] {
  const shape = ({ method, path }: { method: string; path: string }) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`
  const served = new Set(contracts.flatMap((contract) => Object.values(contract).map(shape)))
  return SDK.operations.filter((operation) => !served.has(shape(operation)))
}

/**
 * Says by name which call is missing, for requests that no route takes. The status is 404, as for every path that is not there: the SDKs repeat what is answered with 500 and above, 501 too.
 * Some calls of sessions go to their `base_url`, below `sessionPath`.
 */
export function refuseMissing(missing: readonly Operation[], sessionPath: string): (method: string, path: string) => Fault | undefined {
  const known = missing.map(({ name, method, path }) => ({ name, method, parts: path.split('/') }))
  return (method, path) => {
    const parts = path.replaceAll(/\/+/g, '/').replace(`${sessionPath}/`, '/browsers/').split('/')
    const found = known.find(
      (one) =>
        one.method === method &&
        one.parts.length === parts.length &&
        one.parts.every((part, at) => (part.startsWith('{') ? parts[at] !== '' : part === parts[at])),
    )
    return found && fault.notBuilt(`${found.name} (${method} ${found.parts.join('/')}) is`)
  }
}
