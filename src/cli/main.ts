// The `cob` command.
import { writeFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import { readConfig } from '../base/config.ts'
import { ConfigError } from '../base/setting.ts'
import { VERSION } from '../base/version.ts'

const program = new Command('cob').description('An open-source browser cloud for AI agents').version(VERSION).showHelpAfterError()

program
  .command('serve')
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

const secrets = program.command('secrets').description('the keys that encrypt what is stored (docs/credentials.md)')
for (const [name, description, run] of [
  ['rotate', 'make a new key, and encrypt everything with it again; run it again if it was ended', 'rotateSecrets'],
  ['list', 'say which keys there are, and how many values each has encrypted', 'listSecrets'],
  ['forget', 'remove older keys that nothing in the database needs; backups from before cannot be read then', 'forgetSecrets'],
] as const)
  secrets
    .command(name)
    .description(description)
    .action(async () => {
      const commands = await import('./secrets.ts')
      process.exitCode = await commands[run](readConfig(process.env))
    })

program
  .command('seccomp')
  .description("print the seccomp profile of instances, which a node's kubelet needs as a file (docs/kubernetes.md)")
  .action(async () => {
    const { seccompProfile } = await import('../instances/containers/seccomp.ts')
    process.stdout.write(`${JSON.stringify(seccompProfile())}\n`)
  })

program
  .command('migrate')
  .description('move the database and the objects of a stopped service into DATABASE_URL and COB_S3_BUCKET (docs/operations.md); run it again if it was ended')
  .addOption(new Option('--only <part>', 'move only this').choices(['database', 'objects']))
  .option('--dry-run', 'only say what would be moved')
  .action(async (options: { only?: 'database' | 'objects'; dryRun?: boolean }) => {
    const { migrateDataDirectory } = await import('./migrate.ts')
    await migrateDataDirectory(readConfig(process.env), options)
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
  // Commander treats a missing command as an error, with help on standard error and exit code 1.
  if (process.argv.length === 2) program.outputHelp()
  else await program.parseAsync()
} catch (error) {
  process.stderr.write(`cob: ${error instanceof ConfigError || !process.env.COB_DEBUG ? (error as Error).message : (error as Error).stack}\n`)
  // Everything that was started has been ended by its owner. A timer or socket that is left must not keep the process alive.
  process.exit(1)
}
