package bubblewrap

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// A program in the host's network has no other access to the host, and its level is reduced.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	for mode, level := range map[egress.Mode]string{egress.Preflight: sandbox.LevelPreflight, egress.Unrestricted: sandbox.LevelNone} {
		s := withProbe(t, root, "dial", l.Addr().String())
		s.Egress = mode
		report := jailtest.Run(t, r, s)
		if *report.ExitCode != 0 {
			t.Errorf("%s: %s", mode, report.Stdout.Head)
		}
		if slices.Contains(report.Requested, jail.LayerNetwork) || slices.Contains(report.Applied, jail.LayerNetwork) || !jail.Empty(report.Isolation.CapEff) {
			t.Errorf("%s: requested %v, applied %v", mode, report.Requested, report.Applied)
		}
		if got := sandbox.Level(mode, report.Requested, report.Applied); got != level {
			t.Errorf("%s: the level is %s", mode, got)
		}
		s = jailtest.Shell(t, root, "cat /etc/resolv.conf")
		s.Egress = mode
		if want, err := os.ReadFile("/etc/resolv.conf"); err == nil && jailtest.Output(t, r, s) != string(want) {
			t.Errorf("%s: not the host's resolv.conf", mode)
		}
	}
	s := withProbe(t, root, "dial", l.Addr().String()) // control
	if report := jailtest.Run(t, r, s); *report.ExitCode == 0 {
		t.Error("strict egress reached the host")
	}
}

// A program does not run if a required layer is not in force.
func TestRequiredLayers(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	for layer, fine := range map[string]bool{jail.LayerSeccomp: true, jail.LayerCopy: false, "no_such_layer": false} {
		s := jailtest.Shell(t, root, "touch ran")
		s.Required = []string{layer}
		_, err := r.Run(t.Context(), s)
		ran := exists(filepath.Join(root, "ran"))
		os.Remove(filepath.Join(root, "ran"))
		if ran != fine || !fine && (reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), layer)) {
			t.Errorf("%s: ran %t, %v", layer, ran, err)
		}
	}
	// A missing layer lowers the level, unless a call requires the layer.
	lacking := newTestRunner(t)
	lacking.machine = lacking.machine.Variant(jail.LayerGroup)
	s := jailtest.Shell(t, root, "true")
	s.Required = []string{jail.LayerGroup}
	if _, err := lacking.Run(t.Context(), s); reason.Of(err) != reason.SandboxUnavailable {
		t.Errorf("a layer that is left out: %v", err)
	} else {
		t.Log(err)
	}
}

// Denied calls are answered and recorded.
func TestViolations(t *testing.T) {
	t.Parallel()
	report := jailtest.Run(t, newTestRunner(t), withProbe(t, jailtest.Workspace(t), "mount"))
	if !report.Isolation.Watched || len(report.Violations) != 1 || report.Violations[0].Syscall != "mount" || report.Violations[0].Executable != "/workspace/probe" {
		t.Errorf("watched %t, violations %+v", report.Isolation.Watched, report.Violations)
	}
	if report := jailtest.Run(t, newTestRunner(t), withProbe(t, jailtest.Workspace(t), "fds")); len(report.Violations) != 0 { // control
		t.Errorf("an ordinary program: %+v", report.Violations)
	}
}

// Each run of a daemon that is root has a separate user.
func TestUserPerRun(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a daemon that is root has other users; TestOrdinaryUser covers the rest")
	}
	r := newTestRunner(t)
	uid := func(s sandbox.Spec) string {
		var id string
		token := strconv.Itoa(os.Getpid()) + "-user-" + t.Name()
		ctx, cancel := context.WithCancel(t.Context())
		s.Output = func(string, []byte) {
			defer cancel()
			for _, pid := range carriers(t, token) {
				status := read(t, "/proc/"+strconv.Itoa(pid)+"/status")
				_, rest, _ := strings.Cut(status, "\nUid:\t")
				id, _, _ = strings.Cut(rest, "\t")
			}
		}
		s.Argv = []string{"bash", "-c", "exec -a " + token + " bash -c 'echo up; sleep 30; true'"}
		if _, err := r.Run(ctx, s); reason.Of(err) != reason.Cancelled {
			t.Error(err)
		}
		return id
	}
	root := jailtest.Workspace(t)
	s := jailtest.Shell(t, root, "true")
	if got := uid(s); got != strconv.Itoa(firstUser) {
		t.Errorf("the first run is user %s", got)
	}
	// Two concurrent runs have different users.
	up, go2 := make(chan bool), make(chan bool)
	long := jailtest.Shell(t, root, "echo up; read _")
	var one sync.Once
	long.Output = func(string, []byte) { one.Do(func() { up <- true; <-go2 }) }
	var running sync.WaitGroup
	running.Go(func() { jailtest.Run(t, r, long) })
	<-up
	if got := uid(s); got != strconv.Itoa(firstUser+1) {
		t.Errorf("the second run is user %s", got)
	}
	go2 <- true
	running.Wait()
	if got := uid(s); got != strconv.Itoa(firstUser) && got != strconv.Itoa(firstUser+1) {
		t.Errorf("the third run is user %s", got)
	}
}

// unproved returns the requested layers that were not proved, except for layers that this
// machine does not support.
func unproved(r *Runner, report sandbox.Report) []string {
	return slices.DeleteFunc(slices.Clone(report.Requested), func(layer string) bool {
		return slices.Contains(report.Applied, layer) || layer == jail.LayerGroup && r.machine.Level() == cgroup.Rlimit
	})
}

// Layers belong to threads. Under load and with frequent garbage collections, each run must
// still prove all of them and remove its resources.
//
// Not parallel: it sets the garbage collector's percentage of the process.
func TestManyRunsAtOnce(t *testing.T) {
	r := newTestRunner(t)
	r.pool.most = 2
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	root := jailtest.Workspace(t)
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 50 {
				s := jailtest.Spec(t, root, "true")
				s.Workspace = []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.CopyOnWrite}[(i+worker)%2]
				report, err := r.Run(t.Context(), s)
				if report.Layer != nil {
					must.Check(t, report.Layer.Close())
				}
				if missing := unproved(r, report); err != nil || len(missing) > 0 {
					t.Errorf("Run: %v, not applied %v", err, missing)
					return
				}
				if i%10 == 0 {
					runtime.GC()
				}
			}
		})
	}
	workers.Wait()
	r.Invalidate()
	r.pool.keepers.Wait()
	if left, err := os.ReadDir(r.cfg.LayerDir); err != nil || len(left) > 0 {
		t.Errorf("layers left: %v, %v", left, err)
	}
	noGroupsLeft(t, r)
}
