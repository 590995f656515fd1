package jailtest

import (
	"testing"

	"palyra/internal/exec/sandbox"
)

// Traced returns the results of a program that attaches to its child and to the first process of
// its process namespace: a line each, "traced" or the errno.
func Traced(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) string {
	t.Helper()
	const script = `import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def attach(pid): print("traced" if libc.ptrace(16, pid, None, None) == 0 else errno.errorcode[ctypes.get_errno()])
child = os.fork()
if child == 0: signal.pause()
attach(child); attach(1); os.kill(child, 9)
`
	return Output(t, r, Spec(t, workspace(t), "python3", "-c", script))
}
