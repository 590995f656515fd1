//go:build palyrainit

package packages_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/packages"
	"palyra/internal/exec/upstream/packages/packagestest"
	"palyra/internal/gateway/gatewaytest"
)

// These tests run the machine's npm and pip in bubblewrap, against a registry on loopback.

type world struct {
	*packages.Service

	t        *testing.T
	dir      string
	registry *packagestest.Registry
}

// watched is a real sandbox with a fixed status.
type watched struct {
	sandbox.Runner
	status sandbox.Status
}

func (w watched) Status() sandbox.Status { return w.status }

func newWorld(t *testing.T, needs ...string) *world {
	t.Helper()
	for _, program := range needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the machine has no %s; `make test` installs it", program)
		}
	}
	r := must.Get(bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: dirOf(t), QuarantineDir: dirOf(t)}))(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	status := r.Probe(t.Context())
	if !status.Available {
		t.Fatalf("%s: %s", status.Problem, status.Remedy)
	}
	w := &world{t: t, dir: dirOf(t), registry: packagestest.New(t)}
	w.Service = packages.New(packages.Config{Dir: w.dir, Runner: watched{r, status}, Ready: func() error { return nil }, Version: "test"})
	return w
}

func dirOf(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
}

func (w *world) npm(name, version string) declared.PackageRequest {
	return declared.PackageRequest{Server: "probe", Ecosystem: declared.NPM, Name: name, Version: version, Registry: w.registry.URL}
}

// install makes the approved call.
func (w *world) install(r declared.Resolution, change ...func(map[string]string)) (packages.Installed, tool.Report, tool.Plan, error) {
	w.t.Helper()
	in := map[string]string{
		"server": r.Server, "resolution": must.Get(r.Digest())(w.t), "ecosystem": string(r.Ecosystem), "package": r.Name, "version": r.Version, "integrity": r.Integrity, "registry": r.Registry,
	}
	for _, f := range change {
		f(in)
	}
	p := tool.Proposal{ID: "01", Caller: gatewaytest.Agent, Tool: packages.Install{}.Descriptor(), Input: must.Get(canonical.Marshal(in))(w.t)}
	prepared, err := packages.Install{Service: w.Service}.Prepare(w.t.Context(), p)
	if err != nil {
		return packages.Installed{}, tool.Report{}, tool.Plan{}, err
	}
	report := prepared.Run(w.t.Context(), tool.Call{Proposal: p, Plan: prepared.Plan})
	var made packages.Installed
	if report.Outcome == tool.Succeeded {
		must.Do(w.t, json.Unmarshal(report.Result, &made))
	}
	return made, report, prepared.Plan, nil
}

func (w *world) resolve(wanted declared.PackageRequest) declared.Resolution {
	w.t.Helper()
	return must.Get(w.Resolve(w.t.Context(), gatewaytest.Agent, wanted))(w.t)
}

// TestNPM: npm resolves a package at a registry, and a call installs the pinned package without
// running a script. The digest of the prefix matches its content.
func TestNPM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "npm", "node")
	w.registry.PutProbe("1.2.0")
	r := w.resolve(w.npm("@probe/server", ""))
	if r.Version != "1.2.0" || !strings.HasPrefix(r.Integrity, "sha512-") || len(r.Parts) != 2 || len(r.Scripts) != 2 || !slices.Equal(r.Hosts, []string{w.registry.Host()}) {
		t.Fatalf("%+v", r)
	}
	made, report, plan, err := w.install(r)
	if err != nil || report.Outcome != tool.Succeeded {
		t.Fatalf("%v, %s", err, report.Message)
	}
	for _, part := range []string{r.Name, r.Version, r.Integrity, r.Registry} {
		if !strings.Contains(plan.Preview.Summary, part) {
			t.Errorf("the prompt does not say %s: %s", part, plan.Preview.Summary)
		}
	}
	if !slices.Equal(plan.Facts.EgressHosts, r.Hosts) || report.Isolation == nil || report.Enforcement.Level != sandbox.LevelStrict || plan.ExactOnly == "" {
		t.Errorf("%+v, %+v", plan, report)
	}
	if made.Program != "mcp-probe" || made.Package.Version != "1.2.0" || made.Package.Integrity != r.Integrity {
		t.Errorf("%+v", made)
	}
	chain, err := w.Open("probe", made.Package)
	must.Do(t, err)
	program := must.Get(command.ResolveExecutable("mcp-probe", chain.Bins))(t)
	if !chain.Holds(program.Path) || len(chain.Env) != 0 || program.Shebang != "node" {
		t.Errorf("%+v, %+v", program, chain)
	}
	must.Do(t, filepath.WalkDir(w.dir, func(name string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(name, "ran-a-script") {
			t.Errorf("a script ran: %s", name)
		}
		return err
	}))
	must.Do(t, w.Check("probe", made.Package))
	w.changes(made)
}

// changes checks that each way to change a prefix is detected.
func (w *world) changes(made packages.Installed) {
	w.t.Helper()
	chain, err := w.Open("probe", made.Package)
	must.Do(w.t, err)
	root := must.Get(os.OpenRoot(chain.Dirs[0]))(w.t)
	defer root.Close()
	canary := filepath.Join(dirOf(w.t), "canary")
	must.Do(w.t, os.WriteFile(canary, nil, 0o600))
	const server = "node_modules/@probe/server/server.mjs"
	was := must.Get(root.ReadFile(server))(w.t)
	for what, how := range map[string][2]func() error{
		"a byte":   {func() error { return root.WriteFile(server, append(slices.Clone(was), '\n'), 0o755) }, func() error { return root.WriteFile(server, was, 0o755) }},
		"a file":   {func() error { return root.WriteFile("node_modules/more.js", nil, 0o644) }, func() error { return root.Remove("node_modules/more.js") }},
		"a mode":   {func() error { return root.Chmod("package.json", 0o755) }, func() error { return root.Chmod("package.json", 0o644) }},
		"a link":   {func() error { return root.Symlink(canary, "node_modules/more") }, func() error { return root.Remove("node_modules/more") }},
		"the name": {func() error { return root.Rename("package.json", "p.json") }, func() error { return root.Rename("p.json", "package.json") }},
	} {
		must.Do(w.t, how[0]())
		if err := w.Check("probe", made.Package); reason.Of(err) != reason.DigestMismatch {
			w.t.Errorf("%s changed, and %v", what, err)
		}
		must.Do(w.t, how[1]())
		if err := w.Check("probe", made.Package); err != nil { // control
			w.t.Errorf("after %s: %v", what, err)
		}
	}
}

// TestPinned: an archive that differs from the resolution is not installed, and neither is a
// package that the call names differently.
func TestPinned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "npm", "node")
	w.registry.PutProbe("1.2.0")
	r := w.resolve(w.npm("@probe/server", "^1.0"))
	for member, other := range map[string]string{"version": "1.2.1", "integrity": "sha512-AAAA", "registry": "https://registry.npmjs.org", "package": "probe-part", "server": "other"} {
		if _, _, _, err := w.install(r, func(in map[string]string) { in[member] = other }); reason.Of(err) != reason.DigestMismatch && reason.Of(err) != reason.NotFound {
			t.Errorf("%s: %v", member, err)
		}
	}
	w.registry.Replace("probe-part", "1.0.3", map[string]string{"index.js": "evil\n"})
	_, report, _, err := w.install(r)
	if err != nil || report.Outcome != tool.Failed || !strings.Contains(report.Message, "EINTEGRITY") && !strings.Contains(report.Message, "integrity") {
		t.Errorf("%v, %s %s", err, report.Outcome, report.Message)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "installed", "probe")); err == nil {
		t.Error("something is installed")
	}
	w.registry.PutProbe("1.2.0") // control: the original archive
	if _, report, _, err := w.install(r); err != nil || report.Outcome != tool.Succeeded {
		t.Errorf("%v, %s", err, report.Message)
	}
}

// TestOnlyTheRegistryIsReached: resolving and installing reach only the registry, and a package from another
// host is refused.
func TestOnlyTheRegistryIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "npm", "node")
	other := packagestest.New(t)
	other.PutNPM("elsewhere", "1.0.0", nil, nil)
	w.registry.PutNPM("probe", "1.0.0", map[string]any{"dependencies": map[string]string{"elsewhere": other.URL + "/elsewhere/-/elsewhere-1.0.0.tgz"}}, nil)
	_, err := w.Resolve(t.Context(), gatewaytest.Agent, w.npm("probe", ""))
	if err == nil || len(other.Asked()) > 0 {
		t.Errorf("%v, asked for %v", err, other.Asked())
	}
	// Control: the same package without that dependency.
	w.registry.PutNPM("probe", "1.0.0", nil, nil)
	w.resolve(w.npm("probe", ""))
}

// TestPython: pip resolves wheels of an index with their digests, and installs exactly these.
func TestPython(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "python3", "pip3")
	w.registry.PutProbe("1.4")
	wanted := declared.PackageRequest{Server: "probe", Ecosystem: declared.PyPI, Name: "probe-server", Registry: w.registry.Index}
	r := w.resolve(wanted)
	if r.Version != "1.4" || !strings.HasPrefix(r.Integrity, "sha256:") || len(r.Parts) != 2 || strings.Count(r.Files["requirements.txt"], "--hash=sha256:") != 2 {
		t.Fatalf("%+v", r)
	}
	made, report, _, err := w.install(r)
	if err != nil || report.Outcome != tool.Succeeded || made.Program != "probe-server" {
		t.Fatalf("%v, %s, %+v", err, report.Message, made)
	}
	must.Do(t, w.Check("probe", made.Package))
	// Another wheel under the same name has another digest.
	w.registry.PutWheel("probe-part", "2.0", nil, nil, map[string]string{"probe_part.py": "NAME = 'evil'\n"})
	if _, report, _, err := w.install(r); err != nil || report.Outcome != tool.Failed {
		t.Errorf("%v, %s %s", err, report.Outcome, report.Message)
	}
}

// TestUnusedInstallationsAreRemoved: unused installations are removed, and used ones stay.
func TestUnusedInstallationsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "npm", "node")
	w.registry.PutProbe("1.2.0")
	first, _, _, err := w.install(w.resolve(w.npm("@probe/server", "")))
	must.Do(t, err)
	w.registry.PutProbe("1.3.0")
	second, _, _, err := w.install(w.resolve(w.npm("@probe/server", "")))
	must.Do(t, err)
	if first.Package.Prefix == second.Package.Prefix {
		t.Fatal("two versions are the same")
	}
	must.Do(t, w.Sweep(map[string][]string{"probe": {second.Package.Prefix}}))
	if _, err := w.Find("probe", first.Package.Prefix); reason.Of(err) != reason.NotFound {
		t.Errorf("the first is there still: %v", err)
	}
	must.Do(t, w.Check("probe", second.Package))
	must.Do(t, w.Keep("probe"))
	if _, err := w.Find("probe", second.Package.Prefix); reason.Of(err) != reason.NotFound {
		t.Errorf("the second is there still: %v", err)
	}
}

// TestMissing: the error of a failed resolution contains the cause.
func TestMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "npm", "node")
	_, err := w.Resolve(context.WithoutCancel(t.Context()), gatewaytest.Agent, w.npm("nobody-has-this", ""))
	if reason.Of(err) != reason.ToolFailed || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
	for _, bad := range []declared.PackageRequest{
		w.npm("--registry=https://evil.example", ""), w.npm("a b", ""), w.npm("x", "file:/etc"), w.npm("../x", ""), w.npm("x", "--y"), w.npm("github/repo", ""),
		{Server: "probe", Ecosystem: "gem", Name: "x"}, {Server: "../x", Ecosystem: declared.NPM, Name: "x"},
		{Server: "probe", Ecosystem: declared.NPM, Name: "x", Registry: "http://example.org"}, {Server: "probe", Ecosystem: declared.PyPI, Name: "x @ https://evil.example/x.whl"},
	} {
		if _, err := w.Resolve(t.Context(), gatewaytest.Agent, bad); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
