// The `cob` command.
import { ConfigError } from '../base/setting.ts'
import { makeProgram } from './program.ts'

try {
  const program = makeProgram()
  // Commander treats a missing command as an error, with help on standard error and exit code 1.
  if (process.argv.length === 2) program.outputHelp()
  else await program.parseAsync()
} catch (error) {
  process.stderr.write(`cob: ${error instanceof ConfigError || !process.env.COB_DEBUG ? (error as Error).message : (error as Error).stack}\n`)
  // Every owner has ended what it started. A remaining timer or socket must not keep the process alive.
  process.exit(1)
}
