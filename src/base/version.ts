// The version of this installation, as package.json has it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from './paths.ts'

export const VERSION: string = (JSON.parse(readFileSync(join(PACKAGE_DIR, 'package.json'), 'utf8')) as { version: string }).version
