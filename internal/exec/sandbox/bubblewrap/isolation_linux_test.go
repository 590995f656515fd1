package bubblewrap

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

func TestEveryLayerIsProved(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	report := jailtest.Run(t, r, jailtest.Spec(t, jailtest.Workspace(t), "true"))
	i := report.Isolation
	for name, mask := range map[string]string{"CapEff": i.CapEff, "CapBnd": i.CapBnd, "CapPrm": i.CapPrm} {
		if !jail.Empty(mask) {
			t.Errorf("%s = %q inside, want zero", name, mask)
		}
	}
	if !i.NoNewPrivs || i.SeccompMode != 2 || i.UID != jail.InsideID || i.GID != jail.InsideID {
		t.Errorf("read back no_new_privs=%t seccomp=%d uid=%d gid=%d", i.NoNewPrivs, i.SeccompMode, i.UID, i.GID)
	}
	for _, layer := range report.Requested {
		excused := slices.ContainsFunc(report.Downgrades, func(d string) bool { return strings.HasPrefix(d, layer+":") })
		if !slices.Contains(report.Applied, layer) && !excused {
			t.Errorf("layer %s is neither applied nor a downgrade", layer)
		}
	}
	for _, sum := range []string{i.HelperSHA, i.ArgumentsSHA, i.SeccompSHA} {
		if !strings.HasPrefix(sum, "sha256:") {
			t.Errorf("digest %q", sum)
		}
	}
}

// An omitted layer must be visible in the report: it is not applied, and the level is none.
func TestOmittedLayer(t *testing.T) {
	t.Parallel()
	stray, err := unix.FcntlInt(0, unix.F_DUPFD, 128) // kept by execve, and not one of the sandbox's own numbers
	must.Do(t, err)
	t.Cleanup(func() { unix.Close(stray) })
	for _, layer := range append([]string{jail.LayerNetwork, jail.LayerCopy}, layers...) {
		if slices.Contains([]string{jail.LayerUserNS, jail.LayerMounts, jail.LayerNNP}, layer) {
			r := must.Get(newRunner(Config{Enabled: true, Without: []string{layer}}, helperProgram))(t)
			if _, err := r.Run(t.Context(), jailtest.Spec(t, jailtest.Workspace(t), "true")); reason.Of(err) != reason.SandboxUnavailable {
				t.Errorf("%s was left out: %v", layer, err)
			}
			must.Check(t, r.Close())
			continue
		}
		t.Run(layer, func(t *testing.T) {
			s := jailtest.Spec(t, jailtest.Workspace(t), "true")
			s.Workspace = sandbox.CopyOnWrite
			report := jailtest.Run(t, newTestRunner(t, layer), s)
			if slices.Contains(report.Applied, layer) || !slices.Contains(report.Requested, layer) {
				t.Errorf("requested %v, applied %v", report.Requested, report.Applied)
			}
			if got := sandbox.Level(egress.Strict, report.Requested, report.Applied); got != sandbox.LevelNone && layer != jail.LayerGroup {
				t.Errorf("the level is %s", got)
			}
		})
	}
}

func TestHostFilesAreNotSeen(t *testing.T) {
	t.Parallel()
	state := must.Get(os.MkdirTemp("/var/tmp", "palyra-state-"))(t)
	t.Cleanup(func() { os.RemoveAll(state) })
	must.Do(t, os.Chmod(state, 0o755))
	canary := filepath.Join(state, "journal.db")
	jailtest.WriteFile(t, canary, "canary-in-state", 0o644)
	home, _ := os.UserHomeDir()

	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	for _, name := range []string{"/etc/shadow", "/etc/hostname", "/etc/fstab", "/etc/ssh", "/etc/ssl/private", "/etc/maven/settings.xml", filepath.Join(home, ".ssh"), home, canary, "/sys/kernel", "/root", "/work", "/oldroot", "/dev/tty", "/dev/ptmx", "/dev/kmsg"} {
		report := jailtest.Run(t, r, jailtest.Shell(t, root, "cat '"+name+"' || ls '"+name+"'"))
		if *report.ExitCode == 0 || strings.Contains(string(report.Stdout.Head), "canary") {
			t.Errorf("%s can be read inside: %s", name, report.Stdout.Head)
		}
	}
	// Control: with the host's directories bound and Landlock off, the same probe reads the
	// canary. The mounts and Landlock therefore hide it.
	report := jailtest.Run(t, newTestRunner(t, jail.LayerRoot, jail.LayerLandlock), jailtest.Shell(t, root, "cat "+canary))
	if !strings.Contains(string(report.Stdout.Head), "canary-in-state") {
		t.Errorf("the control could not read the canary: %s", report.Stderr.Head)
	}
	// Landlock alone also hides it.
	report = jailtest.Run(t, newTestRunner(t, jail.LayerRoot), jailtest.Shell(t, root, "cat "+canary))
	if *report.ExitCode == 0 {
		t.Error("Landlock let a path through that no rule names")
	}
}

func TestMasks(t *testing.T) {
	t.Parallel()
	jailtest.Masks(t, newTestRunner(t), newTestRunner(t, jail.LayerMasks))
}

func TestNoWriteOutside(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	fails := func(script string) {
		t.Helper()
		report := jailtest.Run(t, r, jailtest.Shell(t, root, script))
		if report.ExitCode == nil || *report.ExitCode == 0 {
			t.Errorf("%q succeeded", script)
		}
	}
	// The attempts affect the machine if a sandbox fails, perhaps as root. They therefore open
	// files for writing and write no data.
	for _, name := range []string{"/etc/passwd", "/usr/bin/true", "/proc/sysrq-trigger", "/proc/sys/kernel/panic", "/proc/1/comm"} {
		fails("dd if=/dev/null conv=nocreat,notrunc of=" + name)
	}
	for _, name := range []string{"/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/proc/sys/kernel"} {
		fails("test -w " + name)
	}
	fails("mv /workspace /tmp/w")

	// The written file is a canary that every user may write to.
	outside := must.Get(os.MkdirTemp("/var/tmp", "palyra-outside-"))(t)
	t.Cleanup(func() { os.RemoveAll(outside) })
	must.Do(t, os.Chmod(outside, 0o777))
	canary := filepath.Join(outside, "canary")
	jailtest.WriteFile(t, canary, "whole", 0o666)
	for _, way := range []string{"", "/oldroot", "/host", "/proc/1/root", "../../../.."} {
		for _, script := range []string{"echo x >> %s/canary", "touch %s/new", "mkdir %s/made", "rm %s/canary", "mv %[1]s/canary %[1]s/moved"} {
			fails(fmt.Sprintf(script, way+outside))
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 || read(t, canary) != "whole" {
		t.Errorf("outside stand %v (%v)", entries, err)
	}
	// Control: without the new root, the host is at /host. That layer and Landlock protect the
	// canary.
	weak := newTestRunner(t, jail.LayerRoot, jail.LayerLandlock)
	jailtest.Output(t, weak, jailtest.Shell(t, root, "printf x >> /host"+canary))
	if got := read(t, canary); got != "wholex" {
		t.Errorf("the control left %q", got)
	}
	jailtest.Output(t, r, jailtest.Shell(t, root, "touch a /tmp/b ~/c /dev/shm/d /var/tmp/e && mkdir d && mv a d/ && rm -r d"))
}

func TestReadOnlyWorkspace(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "a"), "text", 0o600)
	r := newTestRunner(t)
	s := jailtest.Shell(t, root, "cat a; touch b")
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, ""} {
		s.Workspace = mode
		report := jailtest.Run(t, r, s)
		if *report.ExitCode == 0 || string(report.Stdout.Head) != "text" || exists(filepath.Join(root, "b")) {
			t.Errorf("mode %q: exit %d, stdout %q", mode, *report.ExitCode, report.Stdout.Head)
		}
	}
	s.Workspace = sandbox.Direct // control
	if jailtest.Output(t, r, s); !exists(filepath.Join(root, "b")) {
		t.Error("nothing can be made at all")
	}
}

func TestOffline(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	root := jailtest.Workspace(t)
	s := withProbe(t, root, "dial", l.Addr().String())
	if report := jailtest.Run(t, newTestRunner(t), s); *report.ExitCode == 0 {
		t.Error("a host service on loopback was reached")
	}
	outside := withProbe(t, root, "dial", "192.0.2.1:80")
	if report := jailtest.Run(t, newTestRunner(t), outside); *report.ExitCode == 0 {
		t.Error("an address outside was reached")
	}
	jailtest.Output(t, newTestRunner(t), withProbe(t, root, "loopback"))
	// Control: in the host's network the same probe connects.
	jailtest.Output(t, newTestRunner(t, jail.LayerNetwork), s)
}

func TestAbstractSocketsOfTheHost(t *testing.T) {
	t.Parallel()
	name := "palyra-test-" + strconv.Itoa(os.Getpid())
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}))
	must.Do(t, unix.Listen(fd, 8))
	root := jailtest.Workspace(t)
	s := withProbe(t, root, "abstract", name)
	// Each of the three mechanisms is effective without the other two.
	for what, off := range map[string][]string{
		"all":                 nil,
		"seccomp alone":       {jail.LayerLandlock, jail.LayerNetwork},
		"landlock alone":      {jail.LayerSeccomp, jail.LayerNetwork},
		"net namespace alone": {jail.LayerSeccomp, jail.LayerLandlock},
	} {
		r := newTestRunner(t, off...)
		if what == "landlock alone" && r.machine.Landlock() < 6 {
			continue // scopes exist since ABI 6
		}
		if report := jailtest.Run(t, r, s); *report.ExitCode == 0 {
			t.Errorf("%s: the socket was reached", what)
		}
	}
	jailtest.Output(t, newTestRunner(t, jail.LayerSeccomp, jail.LayerLandlock, jail.LayerNetwork), s) // control
}

func TestSystemCalls(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	for _, c := range []struct{ what, says string }{
		{"userns", "operation not permitted"}, {"mount", "operation not permitted"}, {"ptrace", "operation not permitted"},
		{"sethostname", "operation not permitted"}, {"suid", "operation not permitted"}, {"open-suid", "operation not permitted"},
		{"tiocsti", "operation not permitted"}, {"tiocsti-high", "operation not permitted"},
	} {
		report := jailtest.Run(t, r, withProbe(t, root, c.what))
		if *report.ExitCode == 0 || !strings.Contains(string(report.Stdout.Head), c.says) {
			t.Errorf("%s: exit %d, %s", c.what, *report.ExitCode, report.Stdout.Head)
		}
	}
	// Controls: without the filter these calls succeed, or fail for another reason.
	weak := newTestRunner(t, jail.LayerSeccomp)
	for _, what := range []string{"userns", "suid", "open-suid"} {
		os.Remove(filepath.Join(root, "suid-file"))
		jailtest.Output(t, weak, withProbe(t, root, what))
	}
	report := jailtest.Run(t, weak, withProbe(t, root, "tiocsti"))
	if strings.Contains(string(report.Stdout.Head), "operation not permitted") {
		t.Errorf("the control of tiocsti: %s", report.Stdout.Head)
	}
}

func TestCallsThatTakeMoreThanAShare(t *testing.T) {
	t.Parallel()
	jailtest.SystemCalls(t, newTestRunner(t), newTestRunner(t, jail.LayerSeccomp), jailtest.Workspace)
	t.Run("refusals", func(t *testing.T) { jailtest.Refusals(t, newTestRunner(t), jailtest.Workspace) })
	jailtest.Preallocation(t, newTestRunner(t), jailtest.Workspace)
}

func TestSocketPairs(t *testing.T) {
	t.Parallel()
	bare := newTestRunner(t, jail.LayerSeccomp, jail.LayerLandlock, jail.LayerNetwork)
	jailtest.SocketPairs(t, newTestRunner(t), bare, jailtest.Workspace)
}

func TestNoStrayDescriptors(t *testing.T) {
	t.Parallel()
	out := jailtest.Output(t, newTestRunner(t), withProbe(t, jailtest.Workspace(t), "fds"))
	if strings.Contains(out, "stray") {
		t.Errorf("descriptors reached the tool:\n%s", out)
	}
}

// Not parallel: it sets a variable of the process.
func TestEnvironmentDoesNotLeak(t *testing.T) {
	t.Setenv("TEST_PALYRA_CANARY", "canary-in-env")
	root := jailtest.Workspace(t)
	r := newTestRunner(t)
	const scan = `env; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do echo "$f:"; tr '\0' ' ' < $f; done; readlink /proc/1/cwd /proc/1/root`
	report := jailtest.Run(t, r, jailtest.Shell(t, root, scan))
	out := string(report.Stdout.Head)
	for _, secret := range []string{"canary-in-env", root, "--bind", "--ro-bind"} {
		// The output contains the script's own text, because it is in the command line.
		if strings.Contains(out, secret) {
			t.Errorf("%q is seen inside:\n%s", secret, out)
		}
	}
	// Control: the scan finds existing values.
	s := jailtest.Shell(t, root, scan)
	s.Env = []string{"GIVEN=canary-in-env"}
	if out := string(jailtest.Run(t, r, s).Stdout.Head); !strings.Contains(out, "canary-in-env") {
		t.Errorf("the scan finds nothing:\n%s", out)
	}
	for _, bad := range []string{"LD_PRELOAD=/workspace/x.so", "PATH=/workspace", "HOME=/", "X", "=x", "1A=b", "A=b\x00c", "BASH_ENV=x", "GIT_SSH_COMMAND=x"} {
		s.Env = []string{bad}
		if _, err := r.Run(t.Context(), s); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// CVE-2026-87766: a link in the workspace to /oldroot makes bubblewrap create files on the
// host, if it creates files below the workspace.
func TestHostileLinksInWorkspace(t *testing.T) {
	t.Parallel()
	root, host := jailtest.Workspace(t), jailtest.Workspace(t)
	for _, name := range []string{".git", ".mcp.json", "evil", "node_modules", "tmp", "etc"} {
		must.Do(t, os.Symlink("/oldroot"+host, filepath.Join(root, name)))
	}
	jailtest.Output(t, newTestRunner(t), jailtest.Spec(t, root, "true"))
	if left, _ := os.ReadDir(host); len(left) > 0 {
		t.Errorf("files on the host: %v", left)
	}
}
