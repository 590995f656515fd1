package reason

import (
	"errors"
	"syscall"
)

// When files run out, whatever is tried next fails: a program that cannot be read, a
// sandbox that cannot be built, a disk that seems to be at fault. Only the error of
// the system tells, so that the next step is found here, by the cause, whoever made a
// reason of it.
const (
	ownFilesRemedy = "Too many files are open: raise the limit (LimitNOFILE in palyrad's systemd unit, `ulimit -n` elsewhere), or see what keeps so many open."
	allFilesRemedy = "The whole machine has too many files open: raise its limit (`sysctl fs.file-max`), or see what keeps so many open."
)

// OutOfFiles returns what to do about an error that came of the limit of open files,
// of the process or of the machine, and "" for any other.
func OutOfFiles(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return ownFilesRemedy
	case errors.Is(err, syscall.ENFILE):
		return allFilesRemedy
	}
	return ""
}

// Fault is what a caller may see of an error that carries no reason: that it is a
// fault of the gateway, and not which. The cause is kept for the log, and because
// the next step may depend on it.
func Fault(err error) *Error {
	return (&Error{Code: Internal, Message: Lookup(Internal).Sentence}).WithCause(err)
}

// WithCause returns e with a cause that its message does not tell.
func (e *Error) WithCause(cause error) *Error {
	copied := *e
	copied.cause = cause
	return &copied
}
