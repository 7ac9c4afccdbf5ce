// The system call filter of containers, in the form of Docker's and Kubernetes' profiles. It refuses what the local driver's filter refuses
// (local/system-calls.ts), and allows the calls of Linux 6.1; the library that reads this file does not know later calls. Chromium's sandbox needs the calls
// for namespaces, which the default profiles refuse.
import {
  ABSENT,
  AF_INET,
  AF_INET6,
  AF_NETLINK,
  AF_UNIX,
  IP6TABLES,
  IP_PROTOCOLS,
  LAST_IP_OPTION,
  NETLINK_PROTOCOLS,
  REFUSED,
  SOL_IP,
  SOL_IPV6,
} from '../local/system-calls.ts'

const ENOSYS = 38
const EPERM = 1

/** All calls of Linux 6.1 on x86-64 and arm64 (asm/unistd_64.h, asm-generic/unistd.h). */
const KNOWN = `
_sysctl accept accept4 access acct add_key adjtimex afs_syscall alarm arch_prctl bind bpf brk capget capset chdir chmod chown chroot clock_adjtime
clock_getres clock_gettime clock_nanosleep clock_settime clone clone3 close close_range connect copy_file_range creat create_module delete_module dup
dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit
exit_group faccessat faccessat2 fadvise64 fallocate fanotify_init fanotify_mark fchdir fchmod fchmodat fchown fchownat fcntl fdatasync fgetxattr
finit_module flistxattr flock fork fremovexattr fsconfig fsetxattr fsmount fsopen fspick fstat fstatat fstatfs fsync ftruncate futex futex_waitv
futimesat get_kernel_syms get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
getpeername getpgid getpgrp getpid getpmsg getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid
gettimeofday getuid getxattr init_module inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents
io_setup io_submit io_uring_enter io_uring_register io_uring_setup ioctl ioperm iopl ioprio_get ioprio_set kcmp kexec_file_load kexec_load keyctl kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr lookup_dcookie lremovexattr
lseek lsetxattr lstat madvise mbind membarrier memfd_create memfd_secret migrate_pages mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap
modify_ldt mount mount_setattr move_mount move_pages mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl
msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat nfsservctl open open_by_handle_at open_tree openat openat2
pause perf_event_open personality pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 pivot_root pkey_alloc pkey_free pkey_mprotect poll ppoll prctl
pread64 preadv preadv2 prlimit64 process_madvise process_mrelease process_vm_readv process_vm_writev pselect6 ptrace putpmsg pwrite64 pwritev pwritev2
query_module quotactl quotactl_fd read readahead readlink readlinkat readv reboot recvfrom recvmmsg recvmsg remap_file_pages removexattr rename
renameat renameat2 request_key restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp security select semctl semget semop
semtimedop sendfile sendmmsg sendmsg sendto set_mempolicy set_mempolicy_home_node set_robust_list set_thread_area set_tid_address setdomainname
setfsgid setfsuid setgid setgroups sethostname setitimer setns setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt
settimeofday setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socket socketpair splice stat statfs statx swapoff
swapon symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysfs sysinfo syslog tee tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate tuxcall umask umount2 uname unlink unlinkat unshare
uselib userfaultfd ustat utime utimensat utimes vfork vhangup vmsplice vserver wait4 waitid write writev
`
  .trim()
  .split(/\s+/)

interface Argument {
  index: number
  value: number
  /** Never a comparison by order: the library compares 64 bits, and the kernel uses the low half only. */
  op: 'SCMP_CMP_EQ'
}
interface Rule {
  names: string[]
  action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  errnoRet?: number
  args?: Argument[]
}

/** Calls that are allowed with certain arguments only. */
const BY_ARGUMENTS = ['socket', 'socketpair', 'setsockopt', 'getsockopt']

const is = (index: number, value: number): Argument => ({ index, value, op: 'SCMP_CMP_EQ' })
const allow = (names: string[], args?: Argument[]): Rule => ({ names, action: 'SCMP_ACT_ALLOW', ...(args && { args }) })
const refuse = (names: string[], errnoRet: number, args?: Argument[]): Rule => ({ names, action: 'SCMP_ACT_ERRNO', errnoRet, ...(args && { args }) })

/** The profile as an object. */
export function seccompProfile() {
  const closed = new Set([...Object.keys(ABSENT), ...Object.keys(REFUSED), ...BY_ARGUMENTS])
  const syscalls: Rule[] = [
    allow(KNOWN.filter((name) => !closed.has(name))),
    refuse(Object.keys(ABSENT), ENOSYS),
    refuse(Object.keys(REFUSED), EPERM),
    allow(['socket', 'socketpair'], [is(0, AF_UNIX)]),
    ...[AF_INET, AF_INET6].flatMap((family) => IP_PROTOCOLS.map((protocol) => allow(['socket'], [is(0, family), is(2, protocol)]))),
    ...NETLINK_PROTOCOLS.map((protocol) => allow(['socket'], [is(0, AF_NETLINK), is(2, protocol)])),
    ...optionRules(),
  ]
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
    ],
    syscalls,
  }
}

/**
 * Options of sockets, except those of the packet filter. Every option is listed: a value with a high bit set would pass a range check, and the kernel would use
 * it as an option of the packet filter.
 */
function optionRules(): Rule[] {
  const names = ['setsockopt', 'getsockopt']
  const upTo = (last: number) => Array.from({ length: last + 1 }, (_, option) => option)
  const options: [number, number[]][] = [
    [SOL_IP, upTo(LAST_IP_OPTION)],
    [SOL_IPV6, upTo(LAST_IPV6_OPTION).filter((option) => !IP6TABLES.includes(option))],
  ]
  return [
    ...LEVELS.map((level) => allow(names, [is(1, level)])),
    ...options.flatMap(([level, list]) => list.map((option) => allow(names, [is(1, level), is(2, option)]))),
  ]
}

/** Levels of socket options other than IP's (linux/socket.h): SOL_SOCKET, SOL_TCP, SOL_UDP, SOL_ICMPV6, SOL_RAW, SOL_NETLINK, SOL_TLS, SOL_MPTCP. */
const LEVELS = [1, 6, 17, 58, 255, 270, 282, 284]
/** IPV6_FREEBIND is 78, IPV6_RECVERR_RFC4884 31 and IPV6_ADDR_PREFERENCES 72 (linux/in6.h). */
const LAST_IPV6_OPTION = 80
