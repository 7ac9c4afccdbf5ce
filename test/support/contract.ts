// The published contract as test data: schemas of every answer, and the list of operations. test/data/schemas.json is from the TypeScript SDK 0.84, test/data/newest.json
// from the newest Python SDK (test/data/python/schemas.py generates it).
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

const data = (name: string): never => JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data', name), 'utf8')) as never

const ajv = new Ajv2020({ strict: false, allErrors: true })
;(addFormats as unknown as (target: Ajv2020) => void)(ajv)
ajv.addSchema(data('schemas.json'))
const newest: { $defs: Record<string, object> } = data('newest.json')
ajv.addSchema(newest)

const compiled = new Map<string, ValidateFunction>()

function validator(reference: string, isArray: boolean): ValidateFunction {
  const key = `${reference} ${isArray}`
  const known = compiled.get(key)
  if (known) return known
  const schema = { $ref: reference }
  const validate = ajv.compile(isArray ? { type: 'array', items: schema } : schema)
  compiled.set(key, validate)
  return validate
}

/** Throws unless `value` conforms to the contract's `name` (or to a list of it): in 0.84, and also in the newest release if that has a model of this name. */
export function conforms(name: string, value: unknown, isArray = false): void {
  for (const release of ['contract', ...(name in newest.$defs ? ['newest'] : [])]) {
    const validate = validator(`${release}#/$defs/${name}`, isArray)
    if (!validate(value)) throw new Error(`not a ${name} (${release}): ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value, null, 1).slice(0, 1500)}`)
  }
}
