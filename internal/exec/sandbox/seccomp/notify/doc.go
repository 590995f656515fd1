// Package notify answers the system calls that a watching seccomp filter passes to it
// (seccomp_unotify(2)), and records the attempts. It makes no decision: every call gets the errno
// that the filter would have returned, by its number and the arguments in registers. It never
// reads the caller's memory, which another thread could change between the check and the call,
// and never lets a call through. After the listener is closed, the kernel answers ENOSYS.
package notify
