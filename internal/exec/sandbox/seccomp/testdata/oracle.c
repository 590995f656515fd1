// The rules of the filter once more, written for libseccomp from the design
// and not from the Go code: TestOracle runs both programs and compares them.
//
//   oracle names              number and name of every call that libseccomp knows
//   oracle list plain|watch   the calls that are judged by number alone
//   oracle CALL plain|watch   one call that is judged by its arguments
//
// A call that is judged by its arguments gets a program of its own, because
// libseccomp has one default for all calls and no rule for "anything else".
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOW 0xffffffffULL
#define IS(arg, value) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, LOW, value)
#define HAS(arg, bit) SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, bit, bit)

static scmp_filter_ctx ctx;
static int watch;

static void must(int rc, const char *what) {
  if (rc < 0) {
    fprintf(stderr, "%s: %s\n", what, strerror(-rc));
    exit(1);
  }
}

// What a watching filter reports.
static uint32_t attack(int err) { return watch ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO(err); }

static void start(uint32_t otherwise) {
  ctx = seccomp_init(otherwise);
  if (ctx == NULL) must(-ENOMEM, "seccomp_init");
  must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "act_badarch");
}

static int number(const char *name) {
  // Calls that are newer than the oldest libseccomp in use.
  static const struct { const char *name; int nr; } young[] = {
      {"cachestat", 451}, {"fchmodat2", 452}, {"map_shadow_stack", 453}, {"futex_wake", 454}, {"futex_wait", 455}, {"futex_requeue", 456},
      {"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460}, {"lsm_list_modules", 461}, {"mseal", 462}, {"setxattrat", 463},
      {"getxattrat", 464}, {"listxattrat", 465}, {"removexattrat", 466}, {"open_tree_attr", 467}, {"rseq_slice_yield", 471},
      {"set_mempolicy_home_node", 450},
  };
  for (size_t i = 0; i < sizeof young / sizeof *young; i++)
    if (strcmp(young[i].name, name) == 0) return young[i].nr;
  int nr = seccomp_syscall_resolve_name(name);
  if (nr < 0) must(-EINVAL, name);
  return nr;
}

static void each(uint32_t action, const char *names) {
  char *copy = strdup(names);
  for (char *name = strtok(copy, " \n"); name != NULL; name = strtok(NULL, " \n"))
    must(seccomp_rule_add(ctx, action, number(name), 0), name);
  free(copy);
}

static void list(void) {
  start(SCMP_ACT_ERRNO(ENOSYS));
  // Files, directories and their attributes.
  each(SCMP_ACT_ALLOW,
       "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 close close_range lseek truncate ftruncate fsync fdatasync "
       "sync syncfs sync_file_range readahead fadvise64 copy_file_range sendfile splice tee vmsplice dup dup2 dup3 flock pipe pipe2 "
       "stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getcwd chdir fchdir getdents getdents64 "
       "rmdir link linkat unlink unlinkat symlink symlinkat rename renameat renameat2 chown fchown lchown fchownat utime utimes futimesat utimensat umask "
       "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr "
       "setxattrat getxattrat listxattrat removexattrat cachestat inotify_init inotify_init1 inotify_add_watch inotify_rm_watch");
  // Memory.
  each(SCMP_ACT_ALLOW,
       "brk mmap munmap mprotect mremap msync mincore madvise mlock mlock2 mlockall munlock munlockall remap_file_pages memfd_create membarrier "
       "pkey_alloc pkey_free pkey_mprotect map_shadow_stack mseal");
  // Processes, threads, signals and scheduling.
  each(SCMP_ACT_ALLOW,
       "fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal getpid getppid gettid getpgid getpgrp getsid "
       "setpgid setsid rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack "
       "signalfd signalfd4 pause restart_syscall futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list set_tid_address rseq "
       "rseq_slice_yield arch_prctl prctl set_thread_area get_thread_area sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
       "sched_getscheduler sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
       "getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage times getcpu");
  // Identities and what limits oneself further.
  each(SCMP_ACT_ALLOW,
       "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups "
       "capget capset landlock_create_ruleset landlock_add_rule landlock_restrict_self lsm_get_self_attr lsm_list_modules");
  // Time.
  each(SCMP_ACT_ALLOW,
       "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer timer_create timer_delete timer_getoverrun "
       "timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime");
  // Waiting for descriptors, sockets and messages.
  each(SCMP_ACT_ALLOW,
       "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 "
       "bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt sendto sendmsg sendmmsg "
       "recvfrom recvmsg recvmmsg shutdown mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgsnd msgrcv msgctl semget semop "
       "semtimedop semctl shmget shmat shmdt shmctl uname sysinfo getrandom");
  // What no ordinary program does.
  each(attack(EPERM),
       "unshare setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr "
       "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp keyctl add_key request_key bpf perf_event_open "
       "userfaultfd open_by_handle_at name_to_handle_at lookup_dcookie nfsservctl kexec_load kexec_file_load init_module finit_module delete_module "
       "swapon swapoff acct quotactl quotactl_fd syslog reboot settimeofday adjtimex clock_settime clock_adjtime sethostname setdomainname ioperm iopl "
       "modify_ldt vhangup uselib fanotify_init fanotify_mark lsm_set_self_attr");
  // What is missing, so that programs do without it, and is reported.
  if (watch) each(SCMP_ACT_NOTIFY, "io_setup io_uring_setup");
  // What is tried without harm, and relics.
  each(SCMP_ACT_ERRNO(EPERM),
       "mbind set_mempolicy get_mempolicy set_mempolicy_home_node move_pages migrate_pages memfd_secret _sysctl afs_syscall create_module get_kernel_syms "
       "query_module getpmsg putpmsg security sysfs tuxcall ustat vserver epoll_ctl_old epoll_wait_old");
}

static void mode(const char *name, int arg) {
  start(SCMP_ACT_ALLOW);
  must(seccomp_rule_add(ctx, attack(EPERM), number(name), 1, HAS(arg, 04000)), name);
  must(seccomp_rule_add(ctx, attack(EPERM), number(name), 1, HAS(arg, 02000)), name);
}

static void node(const char *name, int arg) {
  mode(name, arg);
  for (int device = 0020000; device <= 0060000; device += 0040000)
    must(seccomp_rule_add(ctx, attack(EPERM), number(name), 1, SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0170000, device)), name);
}

static void creating(const char *name, int flags, int arg) {
  start(SCMP_ACT_ALLOW);
  for (int bit = 02000; bit <= 04000; bit *= 2) {
    must(seccomp_rule_add(ctx, attack(EPERM), number(name), 2, HAS(flags, 0100), HAS(arg, bit)), name);      // O_CREAT
    must(seccomp_rule_add(ctx, attack(EPERM), number(name), 2, HAS(flags, 020000000), HAS(arg, bit)), name); // __O_TMPFILE
  }
}

static void cloning(void) {
  static const uint32_t bits[] = {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET};
  start(SCMP_ACT_ALLOW);
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
    must(seccomp_rule_add(ctx, attack(EPERM), SCMP_SYS(clone), 1, HAS(0, bits[i])), "clone");
}

static void sockets(void) {
  start(attack(EAFNOSUPPORT));
  for (int family = 2; family <= 10; family += 8) { // AF_INET, AF_INET6
    for (int kind = 1; kind <= 2; kind++) {         // SOCK_STREAM with TCP, SOCK_DGRAM with UDP
      int protocols[] = {0, kind == 1 ? 6 : 17};
      for (int i = 0; i < 2; i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, IS(0, family), SCMP_A1(SCMP_CMP_MASKED_EQ, 15, kind), IS(2, protocols[i])), "socket");
    }
    if (watch) // otherwise the default says the same, and libseccomp refuses such a rule
      must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 3, IS(0, family), SCMP_A1(SCMP_CMP_MASKED_EQ, 15, 1), IS(2, 262)), "mptcp");
  }
  if (!watch) return;
  must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 2, IS(0, 16), IS(2, 0)), "netlink");
}

static void pairs(void) {
  start(attack(EAFNOSUPPORT));
  for (int kind = 1; kind <= 5; kind += 4) // SOCK_STREAM, SOCK_SEQPACKET
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 2, IS(0, 1), SCMP_A1(SCMP_CMP_MASKED_EQ, 15, kind)), "socketpair");
}

static void controls(void) {
  start(SCMP_ACT_ALLOW);
  static const uint32_t requests[] = {0x5412, 0x541c, 0x540e}; // TIOCSTI, TIOCLINUX, TIOCSCTTY
  for (int i = 0; i < 3; i++) must(seccomp_rule_add(ctx, attack(EPERM), SCMP_SYS(ioctl), 1, IS(1, requests[i])), "ioctl");
  static const uint32_t space[] = {0x40305828, 0x4030582a, 0x40305839}; // FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
  for (int i = 0; i < 3; i++) must(seccomp_rule_add(ctx, attack(EOPNOTSUPP), SCMP_SYS(ioctl), 1, IS(1, space[i])), "ioctl");
}

static void preallocating(void) {
  start(attack(EOPNOTSUPP));
  static const uint32_t modes[] = {0x02 | 0x01, 0x08, 0x20}; // a hole without a change of the size, a collapsed and an inserted range
  for (int i = 0; i < 3; i++) must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fallocate), 1, IS(1, modes[i])), "fallocate");
}

static void pipes(void) {
  start(SCMP_ACT_ALLOW);
  // Above 64 KiB: a bit above the seventeenth, or the seventeenth with another one.
  for (int bit = 17; bit < 32; bit++)
    must(seccomp_rule_add(ctx, attack(EPERM), SCMP_SYS(fcntl), 2, IS(1, 1031), HAS(2, 1ULL << bit)), "fcntl");
  for (int bit = 0; bit < 16; bit++)
    must(seccomp_rule_add(ctx, attack(EPERM), SCMP_SYS(fcntl), 2, IS(1, 1031), HAS(2, 0x10000 | 1ULL << bit)), "fcntl");
}

static void persona(void) {
  start(attack(EPERM));
  must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1, IS(0, 0)), "personality");
  must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1, IS(0, LOW)), "personality");
}

static void filters(void) {
  start(SCMP_ACT_ALLOW);
  must(seccomp_rule_add(ctx, attack(EBUSY), SCMP_SYS(seccomp), 1, HAS(1, 8)), "seccomp"); // NEW_LISTENER
}

static void names(void) {
  for (int nr = 0; nr < 512; nr++) {
    char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
    if (name != NULL) printf("%d %s\n", nr, name);
    free(name);
  }
}

static int one(const char *call) {
  if (strcmp(call, "list") == 0) list();
  else if (strcmp(call, "clone") == 0) cloning();
  else if (strcmp(call, "socket") == 0) sockets();
  else if (strcmp(call, "socketpair") == 0) pairs();
  else if (strcmp(call, "ioctl") == 0) controls();
  else if (strcmp(call, "fallocate") == 0) preallocating();
  else if (strcmp(call, "fcntl") == 0) pipes();
  else if (strcmp(call, "personality") == 0) persona();
  else if (strcmp(call, "seccomp") == 0) filters();
  else if (strcmp(call, "open") == 0) creating(call, 1, 2);
  else if (strcmp(call, "openat") == 0) creating(call, 2, 3);
  else if (strcmp(call, "creat") == 0 || strcmp(call, "chmod") == 0 || strcmp(call, "fchmod") == 0 || strcmp(call, "mkdir") == 0) mode(call, 1);
  else if (strcmp(call, "fchmodat") == 0 || strcmp(call, "fchmodat2") == 0 || strcmp(call, "mkdirat") == 0) mode(call, 2);
  else if (strcmp(call, "mknod") == 0) node(call, 1);
  else if (strcmp(call, "mknodat") == 0) node(call, 2);
  else return 0;
  return 1;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "names") == 0) {
    names();
    return 0;
  }
  if (argc != 3) return 2;
  watch = strcmp(argv[2], "watch") == 0;
  must(seccomp_api_set(6), "seccomp_api_set");
  if (!one(argv[1])) return 2;
  must(seccomp_export_bpf(ctx, STDOUT_FILENO), "seccomp_export_bpf");
  seccomp_release(ctx);
  return 0;
}
