// The system call filter of every sandbox, as the program for the kernel (classic BPF, seccomp(2)). It blocks calls that neither Chromium nor an
// ordinary program needs and in which most kernel vulnerabilities were found. It is a deny list: Chromium and the callers' programs use too many
// calls to list.

/** Numbers on x86-64 and on arm64 (asm/unistd_64.h, asm-generic/unistd.h). Undefined: this processor has no such call. */
type Numbers = readonly [x64: number | undefined, arm64: number | undefined]
const both = (number: number): Numbers => [number, number]

/** Answered as by a kernel without these calls (ENOSYS), so that programs fall back to older ones. */
export const ABSENT: Record<string, Numbers> = {
  // Keyrings: the service's own keyring would be reachable.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // Large and recent parts of the kernel.
  io_uring_setup: both(425),
  io_uring_enter: both(426),
  io_uring_register: both(427),
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  // Only old programs use these.
  uselib: [134, undefined],
  ustat: [136, undefined],
  sysfs: [139, undefined],
  modify_ldt: [154, undefined],
  _sysctl: [156, undefined],
  nfsservctl: [180, 42],
  lookup_dcookie: [212, 18],
}

/** Refused as for a process without the permission (EPERM). */
export const REFUSED: Record<string, Numbers> = {
  // Access to another process' memory and descriptors: the agent runs as the same user as the programs of callers.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: both(438),
  kcmp: [312, 272],
  // Mounts, which any user could make in a user namespace. Chromium's own sandbox makes none.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  open_tree: both(428),
  move_mount: both(429),
  fsopen: both(430),
  fsconfig: both(431),
  fsmount: both(432),
  fspick: both(433),
  mount_setattr: both(442),
  open_tree_attr: both(467),
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  // Calls that administer the machine.
  syslog: [103, 116],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: both(443),
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  vhangup: [153, 58],
  iopl: [172, undefined],
  ioperm: [173, undefined],
}

const SOCKET: Numbers = [41, 198]
const SOCKETPAIR: Numbers = [53, 199]
/** setsockopt and getsockopt. */
const SOCKET_OPTIONS: readonly Numbers[] = [
  [54, 208],
  [55, 209],
]

/**
 * The last call of Linux 6.18, file_setattr. Later calls answer ENOSYS until they have been reviewed. So do those of the x32 table, whose numbers
 * begin at 2^30.
 */
const LAST_KNOWN = 469

/** AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 (linux/audit.h): calls by another table (32 bits) answer ENOSYS. */
const ARCHITECTURES: Record<string, { column: 0 | 1; audit: number }> = { x64: { column: 0, audit: 0xc000003e }, arm64: { column: 1, audit: 0xc00000b7 } }

const ERRNO = { EPERM: 1, ENOSYS: 38, EPROTONOSUPPORT: 93, ENOPROTOOPT: 92, EAFNOSUPPORT: 97 } as const

export const AF_UNIX = 1
export const AF_INET = 2
export const AF_INET6 = 10
export const AF_NETLINK = 16
/** Default, ICMP, TCP, UDP, ICMPv6. Blocked: SCTP, DCCP, MPTCP and others, each of which would load a kernel module. */
export const IP_PROTOCOLS = [0, 1, 6, 17, 58]
/** NETLINK_ROUTE, for reading addresses and routes, and NETLINK_KOBJECT_UEVENT, on which Chromium waits for devices. */
export const NETLINK_PROTOCOLS = [0, 15]

// The older way to the packet filter, by options of any IP socket. A program that makes a user namespace with a network of its own may use them there.
export const SOL_IP = 0
export const SOL_IPV6 = 41
/** From 64 on the options of IPv4 sockets are those of iptables, arptables, ebtables and IPVS. */
export const LAST_IP_OPTION = 63
/** IP6T_SO_*. IPv6 itself uses the numbers between them. */
export const IP6TABLES = [64, 65, 68, 69]

// Classic BPF (linux/bpf_common.h): load a word of seccomp_data, jump if equal, jump if greater, jump, return.
const [LD, JEQ, JGT, JA, RET] = [0x20, 0x15, 0x25, 0x05, 0x06]
// Offsets in seccomp_data (linux/seccomp.h). Of an argument, the low half: the kernel reads only this half of an int.
const [NR, ARCH, ARG0, ARG1, ARG2] = [0, 4, 16, 24, 32]
const ALLOW = 0x7fff0000
const failWith = (errno: number): number => 0x00050000 | errno

/** A jump to a later label, if the accumulator matches. */
type Step = { op: number; k: number; to?: string } | { label: string }

/** The filter for this processor; undefined where there is no table for it. */
export function systemCallFilter(arch: string = process.arch): Buffer | undefined {
  const found = ARCHITECTURES[arch]
  if (!found) return undefined
  const numbers = (table: Record<string, Numbers>): number[] => Object.values(table).flatMap((pair) => pair[found.column] ?? [])
  const allowed = (place: number, values: readonly number[], otherwise: keyof typeof ERRNO): Step[] => [
    { op: LD, k: place },
    ...values.map((k) => ({ op: JEQ, k, to: 'allow' })),
    { op: JA, k: 0, to: otherwise },
  ]
  const steps: Step[] = [
    { op: LD, k: ARCH },
    { op: JEQ, k: found.audit, to: 'own' },
    { op: JA, k: 0, to: 'ENOSYS' },
    { label: 'own' },
    { op: LD, k: NR },
    { op: JGT, k: LAST_KNOWN, to: 'ENOSYS' },
    ...numbers(ABSENT).map((k) => ({ op: JEQ, k, to: 'ENOSYS' })),
    ...numbers(REFUSED).map((k) => ({ op: JEQ, k, to: 'EPERM' })),
    { op: JEQ, k: SOCKET[found.column]!, to: 'socket' },
    { op: JEQ, k: SOCKETPAIR[found.column]!, to: 'pair' },
    ...SOCKET_OPTIONS.map((pair) => ({ op: JEQ, k: pair[found.column]!, to: 'option' })),
    { op: JA, k: 0, to: 'allow' },
    { label: 'socket' },
    { op: LD, k: ARG0 },
    { op: JEQ, k: AF_UNIX, to: 'allow' },
    { op: JEQ, k: AF_INET, to: 'ip' },
    { op: JEQ, k: AF_INET6, to: 'ip' },
    { op: JEQ, k: AF_NETLINK, to: 'netlink' },
    { op: JA, k: 0, to: 'EAFNOSUPPORT' },
    { label: 'ip' },
    ...allowed(ARG2, IP_PROTOCOLS, 'EPROTONOSUPPORT'),
    { label: 'netlink' },
    ...allowed(ARG2, NETLINK_PROTOCOLS, 'EPROTONOSUPPORT'),
    { label: 'pair' },
    ...allowed(ARG0, [AF_UNIX], 'EAFNOSUPPORT'),
    { label: 'option' },
    { op: LD, k: ARG1 },
    { op: JEQ, k: SOL_IP, to: 'ip option' },
    { op: JEQ, k: SOL_IPV6, to: 'ipv6 option' },
    { op: JA, k: 0, to: 'allow' },
    { label: 'ip option' },
    { op: LD, k: ARG2 },
    { op: JGT, k: LAST_IP_OPTION, to: 'ENOPROTOOPT' },
    { op: JA, k: 0, to: 'allow' },
    { label: 'ipv6 option' },
    { op: LD, k: ARG2 },
    ...IP6TABLES.map((k) => ({ op: JEQ, k, to: 'ENOPROTOOPT' })),
    { label: 'allow' },
    { op: RET, k: ALLOW },
    ...Object.entries(ERRNO).flatMap(([name, errno]) => [{ label: name }, { op: RET, k: failWith(errno) }]),
  ]
  return assemble(steps)
}

/** Eight bytes per instruction: operation, steps to skip on a match and otherwise, operand (struct sock_filter). */
function assemble(steps: readonly Step[]): Buffer {
  const labels = new Map<string, number>()
  const instructions: { op: number; k: number; to?: string }[] = []
  for (const step of steps) {
    if ('label' in step) labels.set(step.label, instructions.length)
    else instructions.push(step)
  }
  const program = Buffer.alloc(instructions.length * 8)
  for (const [at, { op, k, to }] of instructions.entries()) {
    const distance = to === undefined ? 0 : labels.get(to)! - at - 1
    // A conditional jump has one byte for its distance.
    if (op !== JA && distance > 255) throw new Error(`the system call filter is too long: ${distance} steps to ${to}`)
    program.writeUInt16LE(op, at * 8)
    program.writeUInt8(op === JA ? 0 : distance, at * 8 + 2)
    program.writeUInt32LE(op === JA ? distance : k, at * 8 + 4)
  }
  return program
}
