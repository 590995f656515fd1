package bubblewrap

import (
	"os/exec"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// tracerScript changes a harmless system call of a traced child into unshare(CLONE_NEWUSER), after
// the call has entered the kernel, and prints its result.
const tracerScript = `import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None); os.kill(os.getpid(), signal.SIGSTOP)
    libc.syscall(110); os._exit(0)
os.waitpid(child, 0)
regs = (ctypes.c_ulonglong * 27)() # struct user_regs_struct: rax is 10, rdi 14, orig_rax 15
while True:
    libc.ptrace(24, child, None, None)
    if not os.WIFSTOPPED(os.waitpid(child, 0)[1]): raise SystemExit("the call was not seen")
    libc.ptrace(12, child, None, regs)
    if regs[15] == 110: break
regs[15], regs[14] = 272, 0x10000000
libc.ptrace(13, child, None, regs)
libc.ptrace(24, child, None, None); os.waitpid(child, 0)
libc.ptrace(12, child, None, regs)
print(ctypes.c_longlong(regs[10]).value); os.kill(child, 9)
`

// TestTracerCannotBypassTheFilter: a system call that a tracer has changed is filtered as well.
func TestTracerCannotBypassTheFilter(t *testing.T) {
	t.Parallel()
	if got := jailtest.Output(t, newTestRunner(t), jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", tracerScript)); got != "-1\n" {
		t.Errorf("the changed call returned %q, want -EPERM", got)
	}
	out := must.Get(exec.CommandContext(t.Context(), "python3", "-c", tracerScript).Output())(t)
	if string(out) != "0\n" { // control
		t.Errorf("outside, the changed call returned %q", out)
	}
}
