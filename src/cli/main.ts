// The `cob` command.
import { writeFileSync } from 'node:fs'
import { Command } from 'commander'
import { ConfigError, readConfig } from '../base/config.ts'

const program = new Command('cob').description('An open-source browser cloud for AI agents').showHelpAfterError()

program
  .command('serve', { isDefault: true })
  .description('run the service (settings: docs/settings.md)')
  .action(async () => {
    const { serve } = await import('./serve.ts')
    await serve(readConfig(process.env))
  })

program
  .command('doctor')
  .description('say what this machine lacks, and what is not enforced on it')
  .option('--end-orphans', 'end sandboxes that belong to no service: those of data directories that are gone, or whose service has been away for long')
  .action(async ({ endOrphans = false }: { endOrphans?: boolean }) => {
    const { doctor } = await import('./doctor.ts')
    process.exitCode = await doctor(readConfig(process.env), { endOrphans })
  })

program
  .command('openapi')
  .description('print the OpenAPI document')
  .option('--write <file>', 'write it to a file instead')
  .action(async ({ write }: { write?: string }) => {
    const { openapiText } = await import('../control/api.ts')
    if (write) writeFileSync(write, openapiText())
    else process.stdout.write(openapiText())
  })

try {
  await program.parseAsync()
} catch (error) {
  process.stderr.write(`cob: ${error instanceof ConfigError || !process.env.COB_DEBUG ? (error as Error).message : (error as Error).stack}\n`)
  // What was started has been ended by its owners; a timer or socket that is left must not keep us.
  process.exit(1)
}
