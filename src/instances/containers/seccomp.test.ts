// The system call filter of containers: it refuses what the local driver's filter refuses, and contains no rule twice.
import { expect, test } from 'vitest'
import { ABSENT, REFUSED } from '../local/system-calls.ts'
import { seccompProfile } from './seccomp.ts'

const { defaultAction, defaultErrnoRet, syscalls } = seccompProfile()
const whole = (action: string): string[] => syscalls.filter((rule) => rule.action === action && !rule.args).flatMap(({ names }) => names)

test('what is not listed is refused as unknown', () => {
  expect([defaultAction, defaultErrnoRet]).toEqual(['SCMP_ACT_ERRNO', 38])
})

test('what the local driver refuses is refused, and allowed by no rule', () => {
  const closed = [...Object.keys(ABSENT), ...Object.keys(REFUSED)]
  expect(whole('SCMP_ACT_ERRNO').toSorted()).toEqual(closed.toSorted())
  const allowed = new Set(syscalls.filter(({ action }) => action === 'SCMP_ACT_ALLOW').flatMap(({ names }) => names))
  expect(closed.filter((name) => allowed.has(name))).toEqual([])
})

test("Chromium's sandbox has its namespaces, and every program its files and processes", () => {
  const allowed = whole('SCMP_ACT_ALLOW')
  for (const name of ['clone', 'clone3', 'unshare', 'setns', 'chroot', 'seccomp', 'read', 'openat', 'execve', 'futex', 'newfstatat', 'getdents64', 'prctl'])
    expect(allowed).toContain(name)
  expect(new Set(allowed).size).toBe(allowed.length)
})

test('sockets are for Unix, IP and two kinds of netlink, and no option of them is the packet filter', () => {
  const families = syscalls.filter(({ names }) => names.includes('socket')).map(({ args }) => args!.find(({ index }) => index === 0)!.value)
  expect([...new Set(families)].toSorted((a, b) => a - b)).toEqual([1, 2, 10, 16])
  // As the library compares: 64 bits.
  const matches = (level: number | bigint, option: number | bigint): boolean =>
    syscalls.some(
      ({ names, args, action }) =>
        action === 'SCMP_ACT_ALLOW' &&
        names.includes('setsockopt') &&
        args!.every(({ index, value, op }) => op === 'SCMP_CMP_EQ' && BigInt(index === 1 ? level : option) === BigInt(value)),
    )
  // SO_REUSEADDR, TCP_NODELAY, IP_TTL, IPV6_V6ONLY, IPV6_RECVERR's neighbours, and netlink.
  for (const [level, option] of [
    [1, 2],
    [6, 1],
    [0, 2],
    [41, 26],
    [41, 66],
    [41, 72],
    [270, 1],
  ] as const)
    expect(matches(level, option), `${level} ${option}`).toBe(true)
  // IPT_SO_SET_REPLACE, EBT, ARPT; IP6T_SO_SET_REPLACE and its neighbours.
  for (const [level, option] of [
    [0, 64],
    [0, 96],
    [0, 128],
    [41, 64],
    [41, 65],
    [41, 68],
    [41, 69],
  ] as const)
    expect(matches(level, option), `${level} ${option}`).toBe(false)
  // The kernel uses the low halves only.
  const high = 1n << 32n
  for (const [level, option] of [
    [high, 64n],
    [0n, high | 64n],
    [high | 41n, 64n],
    [41n, high | 64n],
  ] as const)
    expect(matches(level, option), `${level} ${option}`).toBe(false)
})
