//go:build linux

package e2e

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/test/process"
)

// probe is a program that tries actions which a sandbox must prevent, and prints those that
// succeed. Outside a sandbox all of them succeed.
const probe = `import json, os, socket, sys

def can(f):
    try:
        return f() or True
    except Exception as e:
        return False

def read(path):
    with open(path, "rb") as f:
        return f.read().decode("latin-1")

def connect():
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2).close()

def status(field):
    for line in read("/proc/self/status").splitlines():
        if line.startswith(field + ":"):
            return line.split(":")[1].strip()

canary = "TEST_PALYRA_E2E_CANARY"
seen = []
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    if can(lambda: canary in read("/proc/" + pid + "/environ") or 1/0):
        seen.append(pid)
with open("made", "w") as f:
    f.write("by the program")
print(json.dumps({
    "own_environment": canary in os.environ,
    "other_environments": len(seen),
    "connect": can(connect),
    "interfaces": sorted(l.split(":")[0].strip() for l in read("/proc/net/dev").splitlines()[2:]),
    "shadow": can(lambda: read("/etc/shadow")) is not False,
    "outside": can(lambda: os.listdir(sys.argv[2])) is not False,
    "root": os.getuid() == 0,
    "no_new_privs": status("NoNewPrivs"),
    "seccomp": status("Seccomp"),
    "cap_eff": status("CapEff"),
    "init": read("/proc/1/comm").strip(),
}))
`

type probed struct {
	OwnEnvironment    bool     `json:"own_environment"`
	OtherEnvironments int      `json:"other_environments"`
	Connect           bool     `json:"connect"`
	Interfaces        []string `json:"interfaces"`
	Shadow            bool     `json:"shadow"`
	Outside           bool     `json:"outside"`
	Root              bool     `json:"root"`
	NoNewPrivs        string   `json:"no_new_privs"`
	Seccomp           string   `json:"seccomp"`
	CapEff            string   `json:"cap_eff"`
}

const canary = "TEST_PALYRA_E2E_CANARY=of-the-daemon"

// TestProgramsAreContained runs a probe through the daemon and, as the control, without a
// sandbox.
func TestProgramsAreContained(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "[process_runner]", "allow_interpreters = true")
	g.Env = []string{canary}
	g.policy("10.cedar", waived)
	g.file("probe.py", probe)
	port, accepted := countConnections(t)
	g.Start()

	// An ordinary user's probe cannot read palyrad, so the control reads another process of the
	// user.
	other := exec.Command("sleep", "infinity")
	other.Env = append(process.Environment(g.Dir), canary)
	process.Begin(t, other)
	bare := exec.CommandContext(t.Context(), "python3", filepath.Join(g.Workspace, "probe.py"), port, g.Dir)
	bare.Env, bare.Dir = append(process.Environment(g.Dir), canary), t.TempDir()
	outside := process.Finish(t, bare)
	outside.Want(t, 0)
	must.Eventually(t, "the bare probe's connection is counted", func() (bool, string) { return accepted.Load() > 0, "none" })
	free := decode[probed](t, outside.Out)
	if !free.OwnEnvironment || free.OtherEnvironments < 2 || !free.Connect || !free.Outside || free.Shadow != (os.Getuid() == 0) || accepted.Load() != 1 {
		t.Fatalf("the probe cannot do outside what it must not inside: %+v, %d connections", free, accepted.Load())
	}

	c := g.local()
	out := c.ok("call", "process.run", `argv=["python3","probe.py","`+port+`","`+g.Dir+`"]`)
	run := decode[struct {
		ExitCode int `json:"exit_code"`
		Stdout   struct{ Content string }
		Stderr   struct{ Content string }
	}](t, out)
	if run.ExitCode != 0 {
		t.Fatalf("the probe failed: %s", run.Stderr.Content)
	}
	in := decode[probed](t, run.Stdout.Content)
	if in.OwnEnvironment || in.OtherEnvironments != 0 {
		t.Errorf("the daemon's environment is visible: %+v", in)
	}
	if in.Connect || accepted.Load() != 1 || strings.Join(in.Interfaces, ",") != "lo" {
		t.Errorf("there is a network: %+v, %d connections", in, accepted.Load())
	}
	if in.Shadow || in.Outside || in.Root {
		t.Errorf("the program reads what is not its own: %+v", in)
	}
	if in.NoNewPrivs != "1" || in.Seccomp != "2" || strings.Trim(in.CapEff, "0") != "" {
		t.Errorf("the program has more rights than it should: %+v", in)
	}
	checkOwner(t, g)
	checkAttested(t, c)
}

// countConnections listens on an address that a program without a sandbox can reach.
func countConnections(t *testing.T) (port string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	accepted = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, err = net.SplitHostPort(l.Addr().String())
	must.Do(t, err)
	return port, accepted
}

// checkOwner: the program's file belongs to the owner of the workspace.
func checkOwner(t *testing.T, g *gateway) {
	t.Helper()
	dir := must.Get(os.Stat(g.Workspace))(t)
	made := must.Get(os.Stat(filepath.Join(g.Workspace, "made")))(t)
	want, got := dir.Sys().(*syscall.Stat_t), made.Sys().(*syscall.Stat_t)
	if got.Uid != want.Uid || got.Gid != want.Gid {
		t.Errorf("the file belongs to %d:%d, the workspace to %d:%d", got.Uid, got.Gid, want.Uid, want.Gid)
	}
}

// checkAttested: the attestation contains the isolation that the probe observed from inside.
func checkAttested(t *testing.T, c *client) {
	t.Helper()
	p := c.lastAttestation().Statement.Predicate
	i := p.Isolation
	if !i.NoNewPrivs || i.SeccompMode != 2 || strings.Trim(i.CapEff, "0") != "" || strings.Trim(i.CapBnd, "0") != "" || i.UID == 0 {
		text, _ := json.Marshal(i)
		t.Errorf("the attestation says %s", text)
	}
	// If control groups cannot be created, limits use rlimit, and the attestation states it.
	// palyrad may have control groups from systemd even if this test has none.
	tree := cgroup.Find()
	defer tree.Close()
	downgrades := p.Enforcement.Downgrades
	if i.LimitsBy == cgroup.Rlimit {
		downgrades = slices.DeleteFunc(downgrades, func(d string) bool { return strings.HasPrefix(d, "control_group: ") })
		if len(downgrades) == len(p.Enforcement.Downgrades) {
			t.Error("no control group can be made, and the attestation does not say so")
		}
	}
	if p.SandboxEnforcement != "strict" || i.LimitsBy != tree.Level() && tree.Level() != cgroup.Rlimit || len(downgrades) > 0 {
		t.Errorf("the attestation says %s, limits by %s, downgrades %v", p.SandboxEnforcement, i.LimitsBy, p.Enforcement.Downgrades)
	}
	for kind, own := range i.Namespaces {
		if host, err := os.Readlink("/proc/self/ns/" + kind); err != nil || strings.Contains(host, own) {
			t.Errorf("namespace %s is %s, that of the host is %s (%v)", kind, own, host, err)
		}
	}
	if len(i.Namespaces) < 6 {
		t.Errorf("the attestation lists the namespaces %v", i.Namespaces)
	}
}

// TestMissingInterpreter: the error about a script with a missing interpreter names the
// interpreter, not the script. The control is a script whose interpreter exists.
func TestMissingInterpreter(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	for name, text := range map[string]string{"none.sh": "#!/x/y\n", "windows.sh": "#!/bin/sh\r\ntrue\r\n", "fine.sh": "#!/bin/sh\necho ran\n"} {
		g.file(name, text)
		must.Do(t, os.Chmod(filepath.Join(g.Workspace, name), 0o755)) // #nosec G302 -- it is to be started
	}
	g.Start()
	c := g.local()
	for name, want := range map[string]string{"none.sh": "interpreter /x/y does not exist", "windows.sh": "line ends of Windows"} {
		c.run("call", "process.run", `argv=["./`+name+`"]`).Want(t, 9, "SPAWN_FAILED", want)
	}
	if out := c.ok("call", "process.run", `argv=["./fine.sh"]`); !strings.Contains(out, "ran") {
		t.Errorf("the control: %s", out)
	}
}

// TestVirtualEnvironment: the programs of a Python virtual environment run. Its python is a
// link to the machine's, and its scripts name it by the workspace's path on the machine.
// Control: a rule about python applies to both.
func TestVirtualEnvironment(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	bin := filepath.Join(g.Workspace, ".venv", "bin")
	// The test uses the distribution's Python, because the sandbox contains no other.
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "venv", "--without-pip", filepath.Dir(bin)).CombinedOutput(); err != nil {
		t.Fatalf("making the environment: %v: %s", err, out)
	}
	g.file(".venv/bin/where", "#!"+bin+"/python3\nimport sys\nprint(sys.prefix, sys.argv[1:])\n")
	must.Do(t, os.Chmod(filepath.Join(bin, "where"), 0o755)) // #nosec G302 -- it is to be started
	g.Start()
	c := g.local()
	for _, argv := range []string{`[".venv/bin/where","x"]`, `[".venv/bin/python3",".venv/bin/where","x"]`} {
		if out := c.ok("call", "process.run", "argv="+argv); !strings.Contains(out, "/workspace/.venv ['x']") {
			t.Errorf("%s: %s", argv, out)
		}
	}
	g.policy("20.cedar", `@id("no-python") forbid (principal, action, resource) when { context has exec && context.exec has basename && context.exec.basename like "python*" };`)
	c.ok("policy", "reload")
	for _, argv := range []string{`[".venv/bin/where","x"]`, `[".venv/bin/python3",".venv/bin/where","x"]`} {
		c.run("call", "process.run", "argv="+argv).Want(t, 3, "no-python")
	}
}

// TestWorktreeAsWorkspace: git works in a workspace that is a worktree of another workspace's
// repository. The repository is mounted read-only. Controls: a policy that denies the caller
// the repository, and a repository outside of any workspace.
func TestWorktreeAsWorkspace(t *testing.T) {
	t.Parallel()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	strange, feature, other := filepath.Join(base, "strange"), filepath.Join(base, "feature"), filepath.Join(base, "other")
	g := newGateway(t, "[[workspaces]]\nname = \"feature\"\npath = \""+feature+"\"\n[[workspaces]]\nname = \"other\"\npath = \""+other+"\"\n")
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	must.Do(t, os.Mkdir(strange, 0o700))
	for dir, worktree := range map[string]string{g.Workspace: feature, strange: other} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello\n"), 0o600))
		git(dir, "init", "-q")
		git(dir, "add", "a.txt")
		git(dir, "commit", "-q", "-m", "the first commit")
		git(dir, "worktree", "add", "-q", worktree)
	}
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	if out := c.ok("call", "process.run", "workspace=feature", `argv=["git","log"]`); !strings.Contains(out, "the first commit") {
		t.Errorf("git log: %s", out)
	}
	must.Do(t, os.WriteFile(filepath.Join(feature, "b.txt"), nil, 0o600))
	if out := c.ok("call", "process.run", "workspace=feature", `argv=["git","status","--short"]`); !strings.Contains(out, "b.txt") || strings.Contains(out, "a.txt") {
		t.Errorf("git status: %s", out)
	}
	if out := c.run("call", "process.run", "workspace=feature", `argv=["git","commit","--allow-empty","-m","x"]`).Out; strings.Contains(out, "[feature") {
		t.Errorf("the repository was written: %s", out)
	}
	if out := c.run("call", "process.run", "workspace=other", `argv=["git","log"]`).Out; strings.Contains(out, "the first commit") {
		t.Errorf("a repository in no workspace is seen: %s", out)
	}
	g.policy("20.cedar", `@id("no-git") forbid (principal, action == Action::"tool.execute/fs.read", resource) when { context has path && context.path like ".git*" };`)
	c.ok("policy", "reload")
	if out := c.run("call", "process.run", "workspace=feature", `argv=["git","log"]`).Out; strings.Contains(out, "the first commit") {
		t.Errorf("a repository that policy hides is seen: %s", out)
	}
}

// TestWorktreesInWorkspace: git in a call works in a linked worktree that was created outside
// of the gateway, and git outside works in one that a call created. The approval lists the
// paths that are written. Control: a call from a directory in which git needs no path of the
// machine does not receive that path.
func TestWorktreesInWorkspace(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", g.Workspace, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "the first commit")
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	root := must.Get(filepath.EvalSymlinks(g.Workspace))(t)
	if out := c.run("call", "process.run", `argv=["ls","-d","`+root+`"]`).Out; strings.Contains(out, `"exit_code": 0`) {
		t.Errorf("the control: the workspace is at its path of the machine: %s", out)
	}
	git("worktree", "add", "-q", ".claude/worktrees/out")
	if out := c.ok("call", "process.run", `argv=["git","log"]`, "cwd=.claude/worktrees/out"); !strings.Contains(out, "the first commit") {
		t.Errorf("git log in a worktree from outside: %s", out)
	}
	add := `argv=["git","worktree","add",".claude/worktrees/in"]`
	shown := c.ok("call", "process.run", add, "dry_run:=true")
	for _, want := range []string{"gitdir: ../../../.git/worktrees/in", root + "/.claude/worktrees/in/.git"} {
		if !strings.Contains(shown, want) {
			t.Errorf("a dry run does not show %q: %s", want, shown)
		}
	}
	adding := c.begin("call", "process.run", add)
	c.allow(adding.asked()).Want(t, 0)
	adding.wait().Want(t, 0)
	if got := git("-C", ".claude/worktrees/in", "log", "--format=%s"); got != "the first commit\n" {
		t.Errorf("git log outside: %s", got)
	}
	if list := git("worktree", "list", "--porcelain"); !strings.Contains(list, "worktree "+root+"/.claude/worktrees/in\n") || strings.Contains(list, "prunable") {
		t.Errorf("git worktree list outside: %s", list)
	}
	if out := c.ok("call", "process.run", `argv=["git","status"]`, "cwd=.claude/worktrees/in"); !strings.Contains(out, "On branch in") {
		t.Errorf("git status in a worktree from inside: %s", out)
	}
}

// TestOpenNetwork: the operator lets programs use the machine's network. The start then warns,
// the status reports it, and the denial of an unpermitted call names the required permit.
// Controls: a gateway without that setting, and a policy that permits the call.
func TestOpenNetwork(t *testing.T) {
	t.Parallel()
	for mode, open := range map[string]bool{"strict": false, "unrestricted": true, "none": true} {
		g := newGateway(t, "[process_runner]", `egress_enforcement_mode = "`+mode+`"`)
		g.Start()
		c := g.local()
		if warned := strings.Contains(g.Log().String(), "programs have the network of the machine"); warned != open {
			t.Errorf("%s: the log warns: %v", mode, warned)
		}
		if status := c.ok("status"); strings.Contains(status, "programs have the network of the machine") != open {
			t.Errorf("%s: %s", mode, status)
		}
		if !open {
			continue
		}
		c.run("call", "process.run", `argv=["true"]`).Want(t, 3, "POLICY_DENIED", `context.egress.mode == "none"`)
		g.policy("10.cedar", `@id("open") @reason("open") @waives("approval: the test's own") permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode == "none" };`)
		c.ok("policy", "reload")
		c.ok("call", "process.run", `argv=["true"]`)
	}
}
