package process

import (
	"testing"
)

func TestSmoke(t *testing.T) {
	r := newTestRunner(t)
	root := newWorkspace(t)
	rep := mustRun(t, r, shell(t, root, "pwd; id; ls -la; echo hi > f; cat f; ps aux 2>&1|head; env; ls /tmp /proc | head -30; cat /proc/1/environ; ls / ; ls /root; python3 -c 'import os;print(os.getpid())'"))
	t.Logf("%+v\n%s\n%s", rep.ExitCode, rep.Stdout.Head, rep.Stderr.Head)
	t.Logf("%v %v %v %s", rep.Applied, rep.Downgrades, rep.Requested, rep.Rung)
}
