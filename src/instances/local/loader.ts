// Protects the agent from the programs of its session, which run as the same user. The kernel does not let them inspect a process whose program
// file they may not read. Node itself must be readable, so the program that is run is a copy of the dynamic loader, which then loads Node. Root
// owns /proc/<pid>/mem, fd, environ and others of such a process, and neither ptrace(2) nor pidfd_getfd(2) can open it ("dumpable" in prctl(2)).
import { chmodSync, closeSync, copyFileSync, existsSync, openSync, readdirSync, readSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

const PREFIX = 'node-loader-'

// ELF of 64 bits, little endian (elf(5)).
const PHOFF_AT = 32
const PHENTSIZE_AT = 54
const PT_INTERP = 3
const HEAD_BYTES = 4096

/** The dynamic loader that a program names; undefined for a statically linked one. */
export function interpreterOf(program: string): string | undefined {
  const fd = openSync(program, 'r')
  const head = Buffer.alloc(HEAD_BYTES)
  try {
    readSync(fd, head, 0, HEAD_BYTES, 0)
  } finally {
    closeSync(fd)
  }
  if (head.toString('latin1', 0, 6) !== '\x7fELF\x02\x01') return undefined
  const [size, count] = [head.readUInt16LE(PHENTSIZE_AT), head.readUInt16LE(PHENTSIZE_AT + 2)]
  for (let at = Number(head.readBigUInt64LE(PHOFF_AT)), i = 0; i < count && at + size <= HEAD_BYTES; at += size, i++) {
    if (head.readUInt32LE(at) !== PT_INTERP) continue
    const [from, bytes] = [Number(head.readBigUInt64LE(at + 8)), Number(head.readBigUInt64LE(at + 32))]
    if (from + bytes <= HEAD_BYTES) return head.toString('latin1', from, from + bytes - 1)
  }
  return undefined
}

/**
 * Returns the name of the copy in `dir`, and makes the copy when there is none. It is checked at every start: an update of the C library changes the loader as
 * well, and only a loader of the same version works.
 */
export function unreadableLoader(dir: string, program = process.execPath): string | undefined {
  const loader = interpreterOf(program)
  if (loader === undefined) return undefined
  const { size, mtimeMs } = statSync(loader)
  const name = `${PREFIX}${size}-${Math.round(mtimeMs)}`
  if (existsSync(join(dir, name))) return name
  const made = join(dir, `${name}.new`)
  rmSync(made, { force: true })
  copyFileSync(loader, made)
  // Its owner may not read it either: an unprivileged service is the same user as its instances.
  chmodSync(made, 0o111)
  renameSync(made, join(dir, name))
  for (const old of readdirSync(dir)) if (old.startsWith(PREFIX) && old !== name) rmSync(join(dir, old), { force: true })
  return name
}
