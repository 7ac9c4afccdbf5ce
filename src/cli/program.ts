// The commands of `cob`: names, options, help. What they do is in files of their own, which are loaded when they run.
import { writeFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import { readConfig } from '../base/config.ts'
import { VERSION } from '../base/version.ts'

/** All commands. */
export function makeProgram(): Command {
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
    .command('backup <target>')
    .description(
      'write the database and the objects into one file while the service runs (docs/operations.md); a folder gets a file with the time in its name, - is standard output',
    )
    .option('--with-keys', 'include the keys: whoever has the file can then read every stored secret')
    .action(async (target: string, options: { withKeys?: boolean }) => {
      const { writeBackup } = await import('./backup.ts')
      await writeBackup(readConfig(process.env), target, options)
    })

  program
    .command('restore <file>')
    .description(
      'make a new service from a backup, in the data directory, DATABASE_URL and COB_S3_BUCKET of these settings, which must be empty; run it again if it was ended',
    )
    .option('--same-scope', 'keep the scope: only when the service that was backed up is gone and will never run again')
    .action(async (file: string, options: { sameScope?: boolean }) => {
      const { readBackup } = await import('./backup.ts')
      await readBackup(readConfig(process.env), file, options)
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
    .description(
      'move the database and the objects of a stopped service into DATABASE_URL and COB_S3_BUCKET (docs/operations.md); run it again if it was ended',
    )
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

  return program
}
