package reason

import (
	"errors"
	"syscall"
)

// Unrelated operations fail when file descriptors run out: reading a program, building a
// sandbox, writing to the disk. Only the system error shows the cause. The remedy is therefore
// derived from the cause, for errors of every reason.
const (
	ownFilesRemedy = "Too many files are open: raise the limit (LimitNOFILE in palyrad's systemd unit, `ulimit -n` elsewhere), or see what keeps so many open."
	allFilesRemedy = "The whole machine has too many files open: raise its limit (`sysctl fs.file-max`), or see what keeps so many open."
)

// OutOfFiles returns the remedy for an error caused by the limit of open files, of the process
// or of the machine. It returns "" for other errors.
func OutOfFiles(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return ownFilesRemedy
	case errors.Is(err, syscall.ENFILE):
		return allFilesRemedy
	}
	return ""
}

// Fault returns the error that a caller sees for an error without a reason: a fault of the
// gateway, without details. It keeps err as the cause, for the log and for NextStep.
func Fault(err error) *Error {
	return (&Error{Code: Internal, Message: Lookup(Internal).Sentence}).WithCause(err)
}

// WithCause returns a copy of e with a cause that its message does not contain.
func (e *Error) WithCause(cause error) *Error {
	copied := *e
	copied.cause = cause
	return &copied
}
