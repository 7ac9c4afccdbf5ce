// Makes password stores with other programs: KeePassXC's command line, and pass with GnuPG.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PROGRAM_MS = 60_000

/** Runs a program; `input` is what a person would type. @throws with the program's error output */
export function run(program: string, args: string[], { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {}): string {
  return execFileSync(program, args, {
    input,
    env: { PATH: process.env.PATH, HOME: '/dev/null', QT_QPA_PLATFORM: 'offscreen', LC_ALL: 'C.UTF-8', ...env },
    timeout: PROGRAM_MS,
    stdio: ['pipe', 'pipe', 'pipe'],
    encoding: 'utf8',
  })
}

export interface KeePass {
  file: string
  /** Runs keepassxc-cli with the arguments that every command needs. `more` is what a person would type after the password. */
  cli(command: string, args: string[], more?: string): string
}

/** A new file that keepassxc-cli creates and changes. */
export function makeKeePass(dir: string, { name, password }: { name: string; password: string }): KeePass {
  const file = join(dir, name)
  run('keepassxc-cli', ['db-create', '--set-password', '-t', '100', file], { input: `${password}\n${password}\n` })
  return { file, cli: (command, args, typed = '') => run('keepassxc-cli', [command, '-q', file, ...args], { input: `${password}\n${typed}` }) }
}

export interface PassStore extends Disposable {
  insert(name: string, text: string): void
}

/** A new password store in `dir`/store with keys in `dir`/gnupg, made by pass and gpg. */
export function makePass(dir: string, passphrase: string): PassStore {
  // The path of gpg-agent's socket must be short.
  const home = mkdtempSync(join(tmpdir(), 'gpg-'))
  const env = { GNUPGHOME: home, PASSWORD_STORE_DIR: join(dir, 'store') }
  const parameters = ['--batch', '--pinentry-mode', 'loopback', '--passphrase', passphrase]
  run('gpg', [...parameters, '--quick-generate-key', 'Kim <kim@example.com>', 'future-default', 'default', 'never'], { env })
  run('pass', ['init', 'kim@example.com'], { env })
  mkdirSync(join(dir, 'gnupg'), { mode: 0o700 })
  // An operator copies these files.
  run('cp', ['-r', join(home, 'private-keys-v1.d'), join(home, 'pubring.kbx'), join(dir, 'gnupg')])
  return {
    insert: (name, text) => void run('pass', ['insert', '--multiline', name], { env, input: text }),
    [Symbol.dispose]() {
      run('gpgconf', ['--kill', 'all'], { env })
      rmSync(home, { recursive: true, force: true })
    },
  }
}
