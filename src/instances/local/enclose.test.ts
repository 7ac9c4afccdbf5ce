// What bwrap inherits from the service, and with it every program in a sandbox. A program in place of bwrap reports what it finds.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KEYCTL } from './sandbox.ts'

/** The number of add_key(2), per processor. */
const ADD_KEY: Record<string, number> = { x64: 248, arm64: 217 }
const ENCLOSE = join(import.meta.dirname, 'enclose.pl')

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-enclose-'))
  writeFileSync(join(dir, 'filter'), 'a filter')
  writeFileSync(join(dir, 'secret'), 'a secret')
  // -3 is the session keyring (KEY_SPEC_SESSION_KEYRING); 10 searches in it (KEYCTL_SEARCH).
  writeFileSync(
    join(dir, 'bwrap'),
    `#!/usr/bin/perl
my ($type, $name) = ("user", "cob-test");
print "key ", syscall(${KEYCTL[process.arch]}, 10, -3, $type, $name, 0) < 0 ? "none" : "found", "\\n";
print "variable $_\\n" for sort keys %ENV;
opendir my $open, "/proc/self/fd";
my $own = fileno($open) // -1;
print "open $_ ", readlink("/proc/self/fd/$_") // "", "\\n" for grep { /^\\d/ && readlink("/proc/self/fd/$_") !~ m{/proc/|/bwrap$} } sort { $a <=> $b } readdir $open;
print "argument $_\\n" for @ARGV;
open my $options, "<&=", $ARGV[1];
print "option $_\\n" for split /\\0/, join "", <$options>;
`,
  )
  chmodSync(join(dir, 'bwrap'), 0o755)
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

test("a sandbox inherits no key, no file descriptor and no variable, and bwrap's command line has no path of the machine", () => {
  // A service as a careless shell starts it: with a key in its session keyring, and descriptor 200 open.
  const careless = `my ($type, $name, $secret) = ("user", "cob-test", "s"); my $none = 0;
    syscall(${KEYCTL[process.arch]}, 1, $none) >= 0 or die; syscall(${ADD_KEY[process.arch]}, $type, $name, $secret, 1, -3) >= 0 or die;
    exec "/bin/bash", "--norc", "-c", 'exec 200<"$0/secret"; exec "$@"', @ARGV`
  const command = ['perl', ENCLOSE, 'bwrap', String(KEYCTL[process.arch]), join(dir, 'filter'), '2', '--bind', dir, 'echo "$@"', 'a']
  const { stdout, stderr } = spawnSync('perl', ['-e', careless, dir, ...command], { env: { PATH: `${dir}:/usr/bin:/bin`, SECRET: '1' }, encoding: 'utf8' })
  expect(stderr).toBe('')
  const received = (what: string) => stdout.split('\n').flatMap((line) => (line.startsWith(`${what} `) ? [line.slice(what.length + 1)] : []))
  expect(received('key')).toEqual(['none'])
  expect(received('variable')).toEqual([])
  // Descriptor 3 was its standard input, followed by bwrap's own.
  expect(received('open').map((line) => line.replace(/\[\d+\]/, ''))).toEqual([
    '0 /dev/null',
    '1 socket:',
    '2 socket:',
    '3 socket:',
    `4 ${join(dir, 'filter')}`,
    '5 pipe:',
  ])
  expect(received('option')).toEqual(['--bind', dir])
  expect(
    stdout
      .split('\n')
      .filter((line) => line.startsWith('argument '))
      .join('\n'),
  ).not.toContain(dir)
  expect(received('argument').slice(-2)).toEqual(['sh', 'a'])
})
