// The commands of `cob`: names, options, help. Their code is in separate files, which are loaded when they run.
import { writeFileSync } from 'node:fs'
import { Argument, Command, InvalidArgumentError, Option } from 'commander'
import { readConfig } from '../base/config.ts'
import { VERSION } from '../base/version.ts'
import type { CompletionShell } from './completion.ts'
import type { EnvOptions } from './env.ts'

/** The API defines the limit. */
function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('it must be a whole number.')
  return Number(text)
}

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

  program
    .command('status')
    .description('say how the service of these settings is: its parts, sessions, replicas, disk; exits with 1 when it does not answer')
    .option('--json', 'as JSON')
    .action(async (options: { json?: boolean }) => {
      const { status } = await import('./status.ts')
      process.exitCode = await status(readConfig(process.env), options)
    })

  addSecrets(program)
  addKeys(program)

  program
    .command('env')
    .description('print the settings for the official command line and SDKs:  eval "$(cob env)"')
    .addOption(new Option('--shell <shell>', 'for which shell (default: that of $SHELL)').choices(['sh', 'fish']))
    .option('--project <project>', 'the project in which the client works, by id or name')
    .option('--json', 'as JSON')
    .option('--show-key', 'show the key on a terminal too; a pipe or a file always gets it')
    .action(async (options: EnvOptions) => {
      const { printEnv } = await import('./env.ts')
      printEnv(readConfig(process.env), options)
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
    .command('upgrade')
    .description('say how to upgrade')
    .option('--check', 'say which version the database has, and what a start of this version will do to it')
    .action(async (options: { check?: boolean }) => {
      const { upgrade } = await import('./upgrade.ts')
      process.exitCode = await upgrade(readConfig(process.env), options)
    })

  program
    .command('completion')
    .description('print what makes a shell complete the words of this command:  eval "$(cob completion bash)"')
    .addArgument(new Argument('<shell>', 'for which shell').choices(['bash', 'zsh', 'fish']))
    .action(async (shell: CompletionShell) => {
      const { completion } = await import('./completion.ts')
      process.stdout.write(completion(program.name(), shell))
    })
  program
    .command('complete', { hidden: true })
    .argument('[words...]', 'what is typed so far')
    .action(async (typed: string[]) => {
      const { nextWords } = await import('./completion.ts')
      process.stdout.write(`${nextWords(program, typed).join('\n')}\n`)
    })

  addKubernetes(program)

  program
    .command('openapi')
    .description('print the OpenAPI document')
    .option('--write <file>', 'write it to a file instead')
    .action(async ({ write }: { write?: string }) => {
      const [{ openapiText }, { contracts }] = await Promise.all([import('../control/service/openapi.ts'), import('../control/modules.ts')])
      if (write) writeFileSync(write, openapiText(contracts))
      else process.stdout.write(openapiText(contracts))
    })

  return program
}

function addSecrets(program: Command): void {
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
}

function addKeys(program: Command): void {
  const keys = program.command('keys').description('API keys: made, listed and ended on the machine of the service, which needs no key')
  keys
    .command('list')
    .description('list the keys, except those of apps')
    .action(async () => {
      const { listKeys } = await import('./keys.ts')
      await listKeys(readConfig(process.env))
    })
  keys
    .command('create <name>')
    .description('make a key, and print it; it is shown only once')
    .option('--project <project>', 'the only project that it may be used for, by id or name; without it, all projects')
    .option('--expires-days <days>', 'days until it expires; without it, never', whole)
    .action(async (name: string, options: { project?: string; expiresDays?: number }) => {
      const { createKey } = await import('./keys.ts')
      await createKey(readConfig(process.env), name, options)
    })
  keys
    .command('rotate <id>')
    .description('make a key in the place of another one, with its name and project, and print it')
    .option('--expires-days <days>', 'days until the new one expires; without it, as long as the old one was made for', whole)
    .option('--old-expires-days <days>', 'days for which the old one goes on; 0: it ends now; without it: docs/organization.md', whole)
    .action(async (id: string, options: { expiresDays?: number; oldExpiresDays?: number }) => {
      const { rotateKey } = await import('./keys.ts')
      await rotateKey(readConfig(process.env), id, options)
    })
  keys
    .command('delete <id>')
    .description('end a key now')
    .action(async (id: string) => {
      const { deleteKey } = await import('./keys.ts')
      await deleteKey(readConfig(process.env), id)
    })
}

function addKubernetes(program: Command): void {
  program
    .command('seccomp')
    .description("print the seccomp profile of instances, which a node's kubelet needs as a file (docs/kubernetes.md)")
    .option('--keep <file>', 'keep it as this file instead, until this is ended')
    .option('--node <name>', 'with --keep: give this node of Kubernetes a label while the file is there')
    .option('--label <key>', 'the label of --node')
    .action(async (options: { keep?: string; node?: string; label?: string }) => {
      const { seccomp } = await import('./kubernetes.ts')
      await seccomp(options)
    })

  program
    .command('remove-pods')
    .description('end all sessions and runs of COB_SCOPE in Kubernetes, and remove their network policies; the chart does it when it is uninstalled')
    .option('--label <key>', 'take this label from all nodes, too')
    .action(async (options: { label?: string }) => {
      const { removePods } = await import('./kubernetes.ts')
      await removePods(readConfig(process.env), options)
    })
}
