// Programs that root starts as another user.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { asUser } from './unprivileged.ts'
import { isRoot, serviceUser } from './user.ts'

test.runIf(isRoot())('a program of another user reads its folders, whatever their paths contain, and nothing else on the stage', () => {
  // mkdtemp: only root may enter it.
  const root = mkdtempSync(join(tmpdir(), 'cob-unprivileged-'))
  try {
    const names = ['plain', `a b\tc`, `it's "quoted"`, 'back\\slash \\040', '#hash', '$HOME `id` *', 'ü☂']
    const folders = Object.fromEntries(
      names.map((name, index) => {
        const dir = join(root, name)
        mkdirSync(dir)
        writeFileSync(join(dir, 'file'), name)
        return [`f${index}`, dir]
      }),
    )
    const { file, args } = asUser(serviceUser(), folders, (seen) => ['/bin/sh', '-c', `id -u; for dir; do cat "$dir/file"; echo; done; cat /mnt/fstab`, 'sh', ...Object.values(seen)]) // prettier-ignore
    expect(execFileSync(file, args).toString()).toBe([String(serviceUser()!.uid), ...names, ''].join('\n'))
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
})

test.runIf(isRoot())('a program does not start when its groups or its folders are not there', () => {
  const program = () => ['/bin/sh', '-c', 'echo started']
  for (const { file, args } of [
    asUser(serviceUser(), { some: tmpdir() }, program, ['/nonexistent/cgroup.procs']),
    asUser(serviceUser(), { some: '/nonexistent' }, program),
  ])
    expect(() => execFileSync(file, args, { stdio: ['ignore', 'pipe', 'ignore'] })).toThrow(/Command failed/)
})
