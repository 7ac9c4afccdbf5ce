// Runs the agent's bundle with the code that V8 has compiled of it before (instances/local/program.ts). Node's own compile cache has only the top of each
// file. This one has each function that a trial has used (rehearsal.ts), so none of them is parsed and compiled again at a start.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire, flushCompileCache } from 'node:module'
import { basename, join } from 'node:path'
import { constants, Script } from 'node:vm'
import { BUNDLE, X_CLIENT } from './bundle-names.ts'

type Program = (require: (name: string) => unknown, module: { exports: unknown }) => void

const require = createRequire(import.meta.filename)
/** Beside what Node itself keeps. */
const folder = process.env.NODE_COMPILE_CACHE ?? import.meta.dirname
/** Each writes the compiled code of a file that has none yet. */
const fresh: (() => void)[] = []

function run(name: string): unknown {
  const filename = join(import.meta.dirname, name)
  const compiled = join(folder, `${basename(name)}.compiled`)
  const cachedData = existsSync(compiled) ? readFileSync(compiled) : undefined
  const source = `(function (require, module) { 'use strict'; ${readFileSync(filename, 'latin1')}\n})`
  const script = new Script(source, { filename, importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER, ...(cachedData && { cachedData }) })
  if (!cachedData) fresh.push(() => writeFileSync(compiled, script.createCachedData()))
  const module = { exports: {} }
  const program = script.runInThisContext() as Program
  program((other) => (other === `./${X_CLIENT}` ? run(X_CLIENT) : require(other)), module)
  return module.exports
}

const { isTried } = run(BUNDLE) as typeof import('./main.ts')
if (await isTried) {
  for (const write of fresh) write()
  flushCompileCache()
  process.kill(process.pid, 'SIGTERM')
}
