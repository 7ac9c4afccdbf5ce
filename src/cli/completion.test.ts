// The scripts of `cob completion`, in their shells.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../base/paths.ts'
import { completion } from './completion.ts'

const RUN_MS = 20_000
/** The scripts ask the command. */
const ENV = { ...process.env, PATH: `${join(PACKAGE_DIR, 'bin')}:${process.env.PATH}` }
let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-completion-'))
  for (const shell of ['bash', 'zsh', 'fish'] as const) writeFileSync(join(dir, shell), completion('cob', shell))
  writeFileSync(join(dir, 'a backup.tar'), '')
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

function run(file: string, args: string[]): string {
  const { status, stdout, stderr } = spawnSync(file, args, { cwd: dir, env: ENV, encoding: 'utf8', timeout: RUN_MS })
  expect([status, stderr]).toEqual([0, ''])
  return stdout
}
const has = (shell: string) => spawnSync(shell, ['--version']).status === 0

const ASKED: [string[], string[]][] = [
  [['ba'], ['backup']],
  [
    ['keys', ''],
    ['create', 'delete', 'list', 'rotate'],
  ],
  [['keys', 'cr'], ['create']],
  [['keys', 'create', '--pro'], ['--project']],
  [
    ['completion', ''],
    ['bash', 'fish', 'zsh'],
  ],
  [['restore', 'a'], ['a backup.tar']],
  [['openapi', '--write', 'a'], ['a backup.tar']],
  [['keys', 'create', 'name', '--project', ''], []],
  [['nothing-like-this', 'secrets', 'ro'], []],
]

/** Without the help that every command has. */
const own = (words: string[]) => words.filter((word) => !['', 'help', '-h', '--help'].includes(word)).toSorted()

test.each(ASKED)('bash completes %j', (typed, wanted) => {
  const script = 'source "$1"; shift; COMP_WORDS=(cob "$@"); COMP_CWORD=$#; _cob; printf "%s\\n" "${COMPREPLY[@]}"'
  const found = own(run('bash', ['--norc', '-c', script, 'bash', join(dir, 'bash'), ...typed]).split('\n'))
  // An unknown word is skipped: the rest is completed as if it were not there.
  expect(found).toEqual(typed[0] === 'nothing-like-this' ? ['rotate'] : wanted)
})

describe.skipIf(!has('fish'))('with fish', () => {
  test.each(ASKED.slice(0, 8))('fish completes %j', (typed, wanted) => {
    const lines = run('fish', ['--no-config', '-c', 'source $argv[1]; complete -C "$argv[2]"', join(dir, 'fish'), `cob ${typed.join(' ')}`]).split('\n')
    expect(own(lines.map((line) => line.split('\t')[0]!.replaceAll('\\', '')))).toEqual(wanted)
  })
})

describe.skipIf(!has('zsh'))('with zsh', () => {
  // It completes in a terminal only: the test makes one, types the line, and reads the printed list.
  const ask = `
    zmodload zsh/zpty
    zpty z zsh -f -i
    zpty -w z "autoload -Uz compinit; compinit -u -D; source $1; bindkey '^I' list-choices; LISTMAX=0; stty cols 200; print -r -- 'READY''NOW'"
    zpty -r -m z out '*READYNOW*'
    zpty -w -n z "$2"$'\\t'
    repeat 100; do sleep 0.05; while zpty -r -t z out; do all+=$out; done; [[ $all == *$3* ]] && break; done
    print -r -- $all
    zpty -d z`
  test.each(ASKED.slice(1, 6).filter(([, wanted]) => wanted.length > 1))('zsh completes %j', (typed, wanted) => {
    const shown = run('zsh', ['-f', '-c', ask, 'zsh', join(dir, 'zsh'), `cob ${typed.join(' ')}`, wanted.at(-1)!])
    for (const word of wanted) expect(shown).toContain(word)
  })
})
