// Calls that the newest release of the SDKs has and this version of Cob lacks.
import { readFileSync } from 'node:fs'
import { fault, type Fault } from '../../../http/fault.ts'
import type { Contract } from '../../../http/route.ts'
import { hook } from '../../module.ts'

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

/** The operations that no route of the contracts answers. */
export function missingFrom(contracts: readonly Contract[]): Operation[] {
  const shape = ({ method, path }: { method: string; path: string }) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`
  const served = new Set(contracts.flatMap((contract) => Object.values(contract).map(shape)))
  return SDK.operations.filter((operation) => !served.has(shape(operation)))
}

/** Paths below `prefix` are the same calls as those below `means`. */
export interface Alias {
  prefix: string
  means: string
}

export const aliases = hook<Alias>('further paths of calls')

/**
 * Refuses calls that are known but not implemented, by their name. The status is 404, as for every unknown path: the SDKs retry calls that are answered with
 * 500 and above, including 501.
 * `further`: other paths of the same calls.
 */
export function refuseMissing(missing: readonly Operation[], further: readonly Alias[]): (method: string, path: string) => Fault | undefined {
  const known = missing.map(({ name, method, path }) => ({ name, method, parts: path.split('/') }))
  return (method, path) => {
    const plain = path.replaceAll(/\/+/g, '/')
    const parts = further.reduce((at, { prefix, means }) => at.replace(`${prefix}/`, `${means}/`), plain).split('/')
    const found = known.find(
      (one) =>
        one.method === method &&
        one.parts.length === parts.length &&
        one.parts.every((part, at) => (part.startsWith('{') ? parts[at] !== '' : part === parts[at])),
    )
    return found && fault.notBuilt(`${found.name} (${method} ${found.parts.join('/')}) is`)
  }
}
