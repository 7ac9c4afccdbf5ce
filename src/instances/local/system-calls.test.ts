// The filter's program, interpreted step by step as the kernel would, for both processors.
import { expect, test } from 'vitest'
import { systemCallFilter } from './system-calls.ts'

const AUDIT: Record<string, number> = { x64: 0xc000003e, arm64: 0xc00000b7 }
const ALLOWED = 'allowed'

/** The filter's answer to a call: `allowed`, or the error's number. */
function verdict(arch: string, number: number, args: number[] = [], audit = AUDIT[arch]!): string | number {
  const program = systemCallFilter(arch)!
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(audit, 4)
  for (const [index, arg] of args.entries()) data.writeUInt32LE(arg, 16 + 8 * index)
  let loaded = 0
  for (let at = 0; at < program.length / 8; at++) {
    const [op, yes, no, k] = [program.readUInt16LE(at * 8), program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3), program.readUInt32LE(at * 8 + 4)]
    if (op === 0x20) loaded = data.readUInt32LE(k)
    else if (op === 0x15) at += loaded === k ? yes : no
    else if (op === 0x25) at += loaded > k ? yes : no
    else if (op === 0x05) at += k
    else if (op === 0x06) return k === 0x7fff0000 ? ALLOWED : k & 0xffff
    else throw new Error(`an instruction that is not ours: ${op}`)
  }
  throw new Error('the program has no end')
}

test.each([
  ['x64', { read: 0, clone: 56, chroot: 161, unshare: 272, seccomp: 317, clone3: 435, futex: 202 }],
  ['arm64', { read: 63, clone: 220, chroot: 51, unshare: 97, seccomp: 277, clone3: 435, futex: 98 }],
])('on %s the system calls of programs and Chromium are allowed', (arch, numbers) => {
  expect(Object.values(numbers).map((number) => verdict(arch, number))).toEqual(Object.values(numbers).map(() => ALLOWED))
})

test.each([
  ['x64', { keyctl: 250, bpf: 321, io_uring_setup: 425 }, { ptrace: 101, process_vm_writev: 311, pidfd_getfd: 438, mount: 165, fsopen: 430 }],
  ['arm64', { keyctl: 219, bpf: 280, io_uring_setup: 425 }, { ptrace: 117, process_vm_writev: 271, pidfd_getfd: 438, mount: 40, fsopen: 430 }],
])('on %s keys, io_uring, mounts and access to other programs are blocked', (arch, absent, refused) => {
  expect(Object.values(absent).map((number) => verdict(arch, number))).toEqual(Object.values(absent).map(() => 38))
  expect(Object.values(refused).map((number) => verdict(arch, number))).toEqual(Object.values(refused).map(() => 1))
})

test('other tables of calls (32 bits, x32) and calls of future kernels are blocked', () => {
  expect(verdict('x64', 0, [], 0x40000003)).toBe(38)
  expect(verdict('arm64', 63, [], 0x40000028)).toBe(38)
  expect([0x40000000, 470, -1].map((number) => verdict('x64', number))).toEqual([38, 38, 38])
})

test.each([
  ['x64', 41, 53],
  ['arm64', 198, 199],
])('on %s only Unix, IP and the two required kinds of netlink sockets are allowed', (arch, socket, pair) => {
  const of = (family: number, protocol = 0) => verdict(arch, socket, [family, 1, protocol])
  expect([of(1), of(2), of(2, 6), of(10, 17), of(10, 58), of(16), of(16, 15), verdict(arch, pair, [1])]).toEqual(Array.from({ length: 8 }, () => ALLOWED))
  // vsock, packet, AF_ALG, TIPC
  expect([of(40), of(17), of(38), of(30), verdict(arch, pair, [30])]).toEqual([97, 97, 97, 97, 97])
  // audit, netfilter, SCTP, MPTCP
  expect([of(16, 9), of(16, 12), of(2, 132), of(10, 262)]).toEqual([93, 93, 93, 93])
})

test.each([
  ['x64', 54, 55],
  ['arm64', 208, 209],
])('on %s no socket option reaches the packet filter, and the others are open', (arch, set, get) => {
  const of = (level: number, option: number) => [set, get].map((call) => verdict(arch, call, [3, level, option]))
  // SO_REUSEADDR, SO_DOMAIN, IP_TOS, IP_PROTOCOL, TCP_NODELAY, IPV6_V6ONLY, IPV6_RECVTCLASS, IPV6_TCLASS, IPV6_FREEBIND
  for (const [level, option] of [
    [1, 2],
    [1, 39],
    [0, 1],
    [0, 52],
    [6, 1],
    [41, 26],
    [41, 66],
    [41, 67],
    [41, 78],
  ] as const)
    expect(of(level, option)).toEqual([ALLOWED, ALLOWED])
  // iptables, arptables, ebtables, IPVS, ip6tables
  for (const [level, option] of [
    [0, 64],
    [0, 65],
    [0, 96],
    [0, 128],
    [0, 1153],
    [0, -1],
    [41, 64],
    [41, 65],
    [41, 68],
  ] as const)
    expect(of(level, option >>> 0)).toEqual([92, 92])
})

test('without a table for the architecture there is no filter', () => {
  expect(systemCallFilter('riscv64')).toBeUndefined()
})
