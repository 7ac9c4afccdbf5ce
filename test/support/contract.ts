// The published contract as test data: schemas of every answer (test/data/schemas.json) and the list of operations.
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

const data = (name: string): never => JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data', name), 'utf8')) as never

const ajv = new Ajv2020({ strict: false, allErrors: true })
;(addFormats as unknown as (target: Ajv2020) => void)(ajv)
ajv.addSchema(data('schemas.json'))

/** Throws unless `value` is a `name` of the contract (or a list of them). */
export function conforms(name: string, value: unknown, isArray = false): void {
  const schema = { $ref: `contract#/$defs/${name}` }
  const validate = ajv.compile(isArray ? { type: 'array', items: schema } : schema)
  if (!validate(value)) throw new Error(`not a ${name}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value, null, 1).slice(0, 1500)}`)
}
