package bubblewrap

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// preparedRunner returns a runner that keeps up to most sandboxes ready. A value on expire ends
// their lifetime.
func preparedRunner(t testing.TB, most int) (r *Runner, expire chan time.Time) {
	t.Helper()
	r = newTestRunner(t)
	expire = make(chan time.Time)
	r.pool.most = most
	r.pool.after = func(d time.Duration) <-chan time.Time {
		if d == quiet {
			return time.After(0)
		}
		return expire
	}
	return r, expire
}

// settle waits until every member is built.
func (p *pool) settle() []*member {
	p.mu.Lock()
	members := slices.Clone(p.members)
	p.mu.Unlock()
	for _, m := range members {
		<-m.built
	}
	return members
}

func TestPreparedRun(t *testing.T) {
	t.Parallel()
	r, _ := preparedRunner(t, 2)
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "a"), "one\n", 0o644)
	s := copied(jailtest.Shell(t, root, "cat; cat a; echo more >> a; echo new > b; echo $X$Y; pwd"))
	s.Owner, s.Env = "alice", []string{"Y=of another call"}
	if jailtest.Run(t, r, s).Isolation.Prepared {
		t.Error("the first run was prepared")
	}
	r.pool.settle()
	// The parameters of a call arrive with the call, and the workspace is read only then. An
	// earlier change is not a conflict.
	jailtest.WriteFile(t, filepath.Join(root, "a"), "two\n", 0o644)
	s.Env, s.Stdin = []string{"X=given"}, []byte("in\n")
	report := jailtest.Run(t, r, s)
	if got := string(report.Stdout.Head); got != "in\ntwo\ngiven\n/workspace\n" || !report.Isolation.Prepared {
		t.Errorf("prepared %t, stdout %q", report.Isolation.Prepared, got)
	}
	if got := changesOf(t, report); !slices.Equal(got, []string{"modified a", "added b"}) {
		t.Errorf("changes %v", got)
	}
	if missing := unproved(r, report); len(missing) > 0 {
		t.Errorf("not proved in a prepared sandbox: %v", missing)
	}
}

// A prepared sandbox serves only matching calls.
func TestPreparedSandboxServesMatchingCalls(t *testing.T) {
	t.Parallel()
	root, other := jailtest.Workspace(t), jailtest.Workspace(t)
	good := copied(jailtest.Spec(t, root, "true"))
	good.Owner = "alice"
	for name, edit := range map[string]func(*sandbox.Spec){
		"owner":     func(s *sandbox.Spec) { s.Owner = "bob" },
		"workspace": func(s *sandbox.Spec) { s.WorkspaceRoot = other },
		"mode":      func(s *sandbox.Spec) { s.Workspace = sandbox.ReadOnly },
		"egress":    func(s *sandbox.Spec) { s.Egress = egress.Unrestricted },
		"memory":    func(s *sandbox.Spec) { s.Limits.Memory = 64 << 20 },
		"cache":     func(s *sandbox.Spec) { s.Caches = []sandbox.Cache{{Name: "go", Dir: other}} },
		"protected": func(s *sandbox.Spec) { s.Protected = []string{"x"} },
		"hosts":     func(s *sandbox.Spec) { s.Network = jailtest.Grant(t, "example.org:443") },
		"no host":   func(s *sandbox.Spec) { s.Network = jailtest.Grant(t) },
		"another directory in its place": func(*sandbox.Spec) {
			must.Do(t, os.Rename(root, root+"-old"))
			must.Do(t, os.Mkdir(root, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := preparedRunner(t, 4)
			jailtest.Run(t, r, good)
			r.pool.settle()
			s := good
			edit(&s)
			if jailtest.Run(t, r, s).Isolation.Prepared {
				t.Error("a sandbox was handed over")
			}
		})
	}
	r, _ := preparedRunner(t, 4)
	jailtest.Run(t, r, good)
	r.pool.settle()
	if !jailtest.Run(t, r, good).Isolation.Prepared { // control
		t.Error("the same call got none")
	}
}

// A workspace with direct writes is not prepared: its pinned paths are known only at the call,
// so a prepared sandbox would have no pins.
func TestDirectIsNotPrepared(t *testing.T) {
	t.Parallel()
	r, _ := preparedRunner(t, 2)
	s := jailtest.Spec(t, jailtest.Workspace(t), "true")
	jailtest.Run(t, r, s)
	if members := r.pool.settle(); len(members) != 0 {
		t.Errorf("%d sandboxes wait", len(members))
	}
	s.Workspace = sandbox.ReadOnly // control
	jailtest.Run(t, r, s)
	if members := r.pool.settle(); len(members) != 1 {
		t.Errorf("%d sandboxes wait", len(members))
	}
}

// The key contains each field on which the sandbox depends, and the other fields arrive with
// the order. Every field must be in one of the two lists.
func TestKeyHasEveryBuildParameter(t *testing.T) {
	t.Parallel()
	// A session never uses the pool, whatever its key.
	comes := []string{"Argv", "Executable", "Operands", "Cwd", "Env", "Stdin", "Session", "Required", "Output", "Injected", "Scrub", "Wall", "FileSize", "OpenFiles", "AddressSpace"}
	built := map[string]func(*sandbox.Spec){
		"WorkspaceRoot": func(s *sandbox.Spec) { s.WorkspaceRoot = "/other" },
		"WorkspaceName": func(s *sandbox.Spec) { s.WorkspaceName = "other" },
		"Workspace":     func(s *sandbox.Spec) { s.Workspace = sandbox.CopyOnWrite },
		"HostPath":      func(s *sandbox.Spec) { s.HostPath = true },
		"Protected":     func(s *sandbox.Spec) { s.Protected = []string{"other"} },
		"Caches":        func(s *sandbox.Spec) { s.Caches = []sandbox.Cache{{Name: "go"}} },
		"Toolchains":    func(s *sandbox.Spec) { s.Toolchains = []command.Toolchain{{Name: "go"}} },
		"Author":        func(s *sandbox.Spec) { s.Author.Name = "other" },
		"Egress":        func(s *sandbox.Spec) { s.Egress = egress.Unrestricted },
		"Network":       func(s *sandbox.Spec) { s.Network = new(egress.Reach) },
		"Owner":         func(s *sandbox.Spec) { s.Owner = "other" },
		"CPU":           func(s *sandbox.Spec) { s.Limits.CPU = 1 },
		"Memory":        func(s *sandbox.Spec) { s.Limits.Memory = 1 },
		"Processes":     func(s *sandbox.Spec) { s.Limits.Processes = 1 },
		"Tmp":           func(s *sandbox.Spec) { s.Limits.Tmp = 1 },
		"Disk":          func(s *sandbox.Spec) { s.Limits.Disk = 1 },
		"Files":         func(s *sandbox.Spec) { s.Limits.Files = 1 },
	}
	for _, f := range append(reflect.VisibleFields(reflect.TypeFor[sandbox.Spec]()), reflect.VisibleFields(reflect.TypeFor[sandbox.Limits]())...) {
		if f.Name != "Limits" && !slices.Contains(comes, f.Name) && built[f.Name] == nil {
			t.Errorf("%s is neither", f.Name)
		}
	}
	keys := map[string]string{}
	add := func(name string, s sandbox.Spec, root inside.Identity) {
		t.Helper()
		k := key(s, root)
		if was, ok := keys[k]; ok {
			t.Errorf("%s and %s have one key", name, was)
		}
		keys[k] = name
	}
	add("nothing", sandbox.Spec{}, inside.Identity{})
	add("device of the root", sandbox.Spec{}, inside.Identity{Dev: 1})
	add("inode of the root", sandbox.Spec{}, inside.Identity{Ino: 1})
	for name, edit := range built {
		var s sandbox.Spec
		edit(&s)
		add(name, s, inside.Identity{})
	}
	rest := sandbox.Spec{Argv: []string{"true"}, Env: []string{"A=b"}, Cwd: "sub", Limits: sandbox.Limits{Wall: 1}} // control
	if got := keys[key(rest, inside.Identity{})]; got != "nothing" {
		t.Errorf("what comes with the order makes another key: %q", got)
	}
}

// A sandbox is prepared only after an idle period, and an earlier call does not wait for it.
func TestPreparedWhenQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		builds := make(chan string, 4)
		refused := errors.New("nothing is built here")
		p := &pool{most: 4, after: time.After, build: func(s sandbox.Spec) (*jail.Cell, error) {
			builds <- s.Owner
			return nil, refused
		}}
		wait := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var built []string
			for len(builds) > 0 {
				built = append(built, <-builds)
			}
			if !slices.Equal(built, want) {
				t.Errorf("built for %v, want %v", built, want)
			}
		}
		p.begin()
		p.begin()
		p.end("a", sandbox.Spec{Owner: "a"})
		wait(time.Hour) // the other run is in progress
		p.end("b", sandbox.Spec{Owner: "b"})
		wait(quiet - 1)
		if p.take("b") != nil {
			t.Error("a sandbox before the time of quiet")
		}
		p.begin()
		wait(time.Hour) // a run is in progress again
		p.end("a", sandbox.Spec{Owner: "a"})
		wait(quiet - 1)
		wait(1, "a")
		must.Check(t, errors.Join(p.close()...))
	})
}

func TestPreparedAreEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *Runner, expire chan time.Time){
		"their time is over": func(_ *Runner, expire chan time.Time) { expire <- time.Time{} },
		"the policy changed": func(r *Runner, _ chan time.Time) { r.Invalidate() },
	} {
		t.Run(name, func(t *testing.T) {
			r, expire := preparedRunner(t, 2)
			s := copied(jailtest.Spec(t, jailtest.Workspace(t), "true"))
			jailtest.Run(t, r, s)
			members := r.pool.settle()
			if len(members) != 1 {
				t.Fatalf("%d members", len(members))
			}
			end(r, expire)
			<-members[0].over
			if jailtest.Run(t, r, s).Isolation.Prepared {
				t.Error("it was used all the same")
			}
			r.Invalidate()
			r.pool.keepers.Wait()
			if left, err := os.ReadDir(r.cfg.LayerDir); err != nil || len(left) > 2 { // the first processes in the reports
				t.Errorf("layers left: %v, %v", left, err)
			}
		})
	}
}

// The pool stays within its limit, and a member that has ended by itself is not used.
func TestPreparedBounds(t *testing.T) {
	t.Parallel()
	r, _ := preparedRunner(t, 1)
	a, b := copied(jailtest.Spec(t, jailtest.Workspace(t), "true")), copied(jailtest.Spec(t, jailtest.Workspace(t), "true"))
	jailtest.Run(t, r, a)
	r.pool.settle()
	jailtest.Run(t, r, b)
	if members := r.pool.settle(); len(members) != 1 {
		t.Errorf("%d members", len(members))
	}
	if jailtest.Run(t, r, a).Isolation.Prepared {
		t.Error("the older one is still there")
	}
	members := r.pool.settle()
	must.Do(t, members[0].cell.Processes.End())
	if jailtest.Run(t, r, a).Isolation.Prepared {
		t.Error("a dead one was used")
	}
	r.pool.most = 0
	r.Invalidate()
	jailtest.Run(t, r, a)
	if members := r.pool.settle(); len(members) != 0 {
		t.Error("members in a pool that is switched off")
	}
}
