// Starts a program as another user from root, wherever its files are on the disk.
import { quote } from './shell.ts'
import type { User } from './user.ts'

/** Where bound folders appear for the started program. The folder always exists on Debian; it is covered only in the program's own mount namespace. */
const STAGE = '/mnt'

/** A command line, and the path of each named folder for the program that it starts. */
export interface Command {
  file: string
  args: string[]
  /** The folder's path as the started program sees it. */
  seen: Record<string, string>
}

/**
 * The command that runs `program` as `user` with access to `folders`.
 *
 * The checkout or the data may lie below a folder that only root may enter (/root, a mktemp -d). Another user could not even execute the program
 * there. So the folders are bound to a stage in a mount namespace of the program's own.
 * `groups` are cgroup.procs files that the program is entered into before it starts. `before` are shell lines that run first: as our own user,
 * outside of the groups, in the mount namespace (if there is one) and before the folders are bound.
 * Without a user the program runs as it is.
 */
export function asUser(
  user: User | undefined,
  folders: Record<string, string>,
  program: (seen: Record<string, string>) => string[],
  groups: readonly string[] = [],
  before = '',
): Command {
  if (user === undefined) {
    const [file, ...args] = program(folders)
    if (groups.length === 0 && before === '') return { file: file!, args, seen: folders }
    return { file: '/bin/sh', args: ['-c', `${before}\n${enter(groups)}exec "$@"`, 'sh', file!, ...args], seen: folders }
  }
  const names = Object.keys(folders)
  const seen = Object.fromEntries(names.map((name) => [name, `${STAGE}/${name}`]))
  const script = [
    'set -e',
    before,
    // A process waits some 15 ms for the kernel when it enters a group. The folders are bound meanwhile. `$$` is this shell, not the one in the background.
    `{ ${enter(groups)} true; } & entering=$!`,
    `mount -t tmpfs -o mode=755,size=64k cob ${STAGE}`,
    `mkdir ${Object.values(seen).join(' ')}`,
    // All in one call of mount, by a file in the format of fstab(5), which is emptied afterwards.
    `printf '%s\n' ${names.map((name) => quote(`${escaped(folders[name]!)} ${seen[name]} none bind 0 0`)).join(' ')} >${STAGE}/fstab`,
    `mount --all --fstab ${STAGE}/fstab`,
    `: >${STAGE}/fstab`,
    'wait $entering',
    'cd /',
    'uid=$1 gid=$2; shift 2',
    'exec setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all --bounding-set=-all -- "$@"',
  ]
  return {
    file: 'unshare',
    args: ['--mount', '--propagation', 'private', '/bin/sh', '-c', script.join('\n'), 'sh', String(user.uid), String(user.gid), ...program(seen)],
    seen,
  }
}

/** A path in fstab(5). */
const escaped = (path: string): string => path.replace(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`)

const enter = (groups: readonly string[]): string => groups.map((file) => `echo $$ > '${file}'\n`).join('')
