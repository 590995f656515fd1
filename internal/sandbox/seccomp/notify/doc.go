// Package notify answers the system calls that a watching seccomp filter asks
// about (seccomp_unotify(2)), and writes down what was tried. It decides
// nothing: every call gets the errno that the filter would have given, by its
// number and the arguments in registers. Memory of the caller is never looked
// at and no call is ever let through, so there is nothing to race with. Where
// nobody answers any more, the kernel says ENOSYS.
package notify
