// Package notify answers the system calls that a watching seccomp filter asks
// about (seccomp_unotify(2)), and writes down what was tried. It decides
// nothing: every call gets the errno that the filter would have given, by its
// number and the arguments in registers. It never reads the caller's memory, which
// another thread could change between the check and the call, and never lets a
// call through. Once the listener is closed, the kernel answers ENOSYS.
package notify
