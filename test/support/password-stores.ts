// Password stores as other programs make them: pykeepass, KeePassXC's command line, pass with GnuPG.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'

const PROGRAM_MS = 60_000

/** Runs a program; `input` is what a person would type. @throws with what it complained about */
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
  /** A command of keepassxc-cli, which keeps the form of the file. `more`: what a person would type after the password. */
  cli(command: string, args: string[], more?: string): string
}

interface Wanted {
  name: string
  password?: string
  /** A path. */
  keyfile?: string
  cipher?: 'chacha20'
  entries?: { title: string; username?: string; password?: string; url?: string; fields?: Record<string, string> }[]
}

/** A new KDBX 4 file whose key Argon2 derives, made by pykeepass: keepassxc-cli makes KDBX 3 unless something needs 4. */
export function makeKeePass(dir: string, { name, password, keyfile, ...more }: Wanted): KeePass {
  const file = join(dir, name)
  run('/usr/bin/python3', [join(PACKAGE_DIR, 'test/data/python/keepass.py')], { input: JSON.stringify({ file, password, keyfile, ...more }) })
  const key = [...(keyfile === undefined ? [] : ['-k', keyfile]), ...(password === undefined ? ['--no-password'] : [])]
  return {
    file,
    cli: (command, args, typed = '') =>
      run('keepassxc-cli', [command, '-q', ...key, file, ...args], { input: `${password === undefined ? '' : `${password}\n`}${typed}` }),
  }
}

/** A new file as keepassxc-cli makes it by itself: in the old form, unless it is told to do what needs KDBX 4. */
export function makeOldKeePass(dir: string, { name, password }: { name: string; password: string }): KeePass {
  const file = join(dir, name)
  run('keepassxc-cli', ['db-create', '--set-password', '-t', '100', file], { input: `${password}\n${password}\n` })
  return { file, cli: (command, args, typed = '') => run('keepassxc-cli', [command, '-q', file, ...args], { input: `${password}\n${typed}` }) }
}

export interface PassStore extends Disposable {
  insert(name: string, text: string): void
  /** By gpg alone, which compresses; pass does not. */
  compress(name: string, text: string): void
}

/** A new password store in `dir`/store with keys in `dir`/gnupg, made by pass and gpg. */
export function makePass(dir: string, passphrase: string): PassStore {
  // The agent's socket has a short path.
  const home = mkdtempSync(join(tmpdir(), 'gpg-'))
  const env = { GNUPGHOME: home, PASSWORD_STORE_DIR: join(dir, 'store') }
  const parameters = ['--batch', '--pinentry-mode', 'loopback', '--passphrase', passphrase]
  run('gpg', [...parameters, '--quick-generate-key', 'Kim <kim@example.com>', 'future-default', 'default', 'never'], { env })
  run('pass', ['init', 'kim@example.com'], { env })
  mkdirSync(join(dir, 'gnupg'), { mode: 0o700 })
  // What an operator copies.
  run('cp', ['-r', join(home, 'private-keys-v1.d'), join(home, 'pubring.kbx'), join(dir, 'gnupg')])
  return {
    compress: (name, text) =>
      void run('gpg', ['--batch', '--trust-model', 'always', '-e', '-r', 'kim@example.com', '-o', join(dir, 'store', `${name}.gpg`)], { env, input: text }),
    insert: (name, text) => void run('pass', ['insert', '--multiline', name], { env, input: text }),
    [Symbol.dispose]() {
      run('gpgconf', ['--kill', 'all'], { env })
      rmSync(home, { recursive: true, force: true })
    },
  }
}
