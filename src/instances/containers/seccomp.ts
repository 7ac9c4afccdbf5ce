// The system call filter of containers, in the form of Docker's and Kubernetes' profiles (images/seccomp.json). It refuses what the local driver's filter refuses (local/system-calls.ts), and
// allows what Linux had by 6.1; later calls are unknown to the library that reads this. Chromium's own sandbox needs the calls for namespaces, which the engines' default profiles refuse.
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
  op: 'SCMP_CMP_EQ' | 'SCMP_CMP_GT' | 'SCMP_CMP_LE'
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

/** Options of sockets, but those of the packet filter. */
function optionRules(): Rule[] {
  const names = ['setsockopt', 'getsockopt']
  const between = Array.from({ length: IP6TABLES.at(-1)! - LAST_IP_OPTION }, (_, at) => LAST_IP_OPTION + 1 + at).filter((option) => !IP6TABLES.includes(option))
  return [
    ...LEVELS.map((level) => allow(names, [is(1, level)])),
    allow(names, [{ index: 1, value: SOL_IPV6, op: 'SCMP_CMP_GT' }]),
    ...[SOL_IP, SOL_IPV6].map((level) => allow(names, [is(1, level), { index: 2, value: LAST_IP_OPTION, op: 'SCMP_CMP_LE' }])),
    ...between.map((option) => allow(names, [is(1, SOL_IPV6), is(2, option)])),
    allow(names, [is(1, SOL_IPV6), { index: 2, value: IP6TABLES.at(-1)!, op: 'SCMP_CMP_GT' }]),
  ]
}

/** Levels of socket options below IPv6's (linux/socket.h): SOL_SOCKET, SOL_TCP, SOL_UDP. */
const LEVELS = [1, 6, 17]
