package gateway

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/doctor"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/passkey"
	"palyra/internal/ops/journalkey"
	"palyra/internal/store/sqlite"
	"palyra/internal/surface/console"
)

// checkOf returns the check with a name.
func checkOf(t *testing.T, cfg *config.Config, name string) doctor.Check {
	t.Helper()
	for _, e := range doctor.Examine(t.Context(), examined(cfg)) {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("there is no exam %q", name)
	return doctor.Check{}
}

// stopped returns the configuration of a gateway that ran and stopped normally.
func stopped(t *testing.T) *config.Config {
	t.Helper()
	d := start(t, testConfig(t))
	d.end()
	return d.cfg
}

// copied returns the configuration of another gateway, not running, with a copy of the state.
func copied(t *testing.T, of *config.Config) *config.Config {
	t.Helper()
	cfg := testConfig(t)
	must.Do(t, filepath.WalkDir(of.StateDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(cfg.StateDir, must.Get(filepath.Rel(of.StateDir, path))(t))
		info := must.Get(e.Info())(t)
		if e.IsDir() {
			return os.Mkdir(to, info.Mode().Perm())
		}
		return os.WriteFile(to, must.Get(os.ReadFile(path))(t), info.Mode().Perm())
	}))
	return cfg
}

// TestDoctorFindsDefects makes one defect at a time, each in a copy of one gateway. Control:
// the same exam of that gateway finds no defect.
func TestDoctorFindsDefects(t *testing.T) {
	t.Parallel()
	sound := stopped(t)
	sound.Workspaces = []config.Workspace{{Name: "default", Path: t.TempDir()}}
	before := map[string]doctor.Check{}
	for _, e := range doctor.Examine(t.Context(), examined(sound)) {
		before[e.Name] = e
	}
	for _, row := range []struct {
		exam string
		harm func(t *testing.T, cfg *config.Config)
		want doctor.Check
	}{
		{
			"state directory",
			func(t *testing.T, cfg *config.Config) { chmod(t, cfg.StateDir, 0o755) },
			doctor.Check{Result: doctor.Failed, Detail: "others may read it", Remedy: "chmod 700"},
		},
		{
			"keys",
			func(t *testing.T, cfg *config.Config) {
				chmod(t, filepath.Join(cfg.StateDir, "ca", "notary.pem"), 0o644)
			},
			doctor.Check{Result: doctor.Failed, Detail: "notary.pem"},
		},
		{
			"journal",
			func(t *testing.T, cfg *config.Config) { forge(t, statedir.Store(cfg.StateDir)) },
			doctor.Check{Result: doctor.Failed, Detail: "journal is damaged at sequence number"},
		},
		{
			"listen.api",
			func(t *testing.T, cfg *config.Config) { cfg.Listen.API = taken(t) },
			doctor.Check{Result: doctor.Failed, Detail: "address already in use", Remedy: "listen.api"},
		},
		{
			"listen.metrics",
			func(t *testing.T, cfg *config.Config) { cfg.Listen.Metrics = taken(t) },
			doctor.Check{Result: doctor.Failed, Detail: "address already in use", Remedy: "listen.metrics"},
		},
		{
			"listen.console",
			func(t *testing.T, cfg *config.Config) { cfg.Listen.Console = taken(t) },
			doctor.Check{Result: doctor.Failed, Detail: "address already in use", Remedy: "listen.console"},
		},
		{
			"console.origin",
			func(_ *testing.T, cfg *config.Config) { cfg.Console.Origin = "http://localhost:7145" },
			doctor.Check{Result: doctor.Warning, Detail: "no passkey that counts is lost by it", Remedy: "Set console.origin back"},
		},
		{
			"console.origin",
			func(t *testing.T, cfg *config.Config) {
				keepPasskey(t, cfg)
				cfg.Console.Origin = "http://localhost:7145"
			},
			doctor.Check{Result: doctor.Warning, Detail: `passkeys that were enrolled there are lost: "yubi" of user:local`, Remedy: "Set console.origin back"},
		},
		{
			"workspaces",
			func(_ *testing.T, cfg *config.Config) {
				cfg.Workspaces = []config.Workspace{{Name: "inside", Path: cfg.StateDir}}
			},
			doctor.Check{Result: doctor.Failed, Detail: "state_dir"},
		},
		{
			"policy",
			func(t *testing.T, cfg *config.Config) {
				cfg.Policy.Dir = t.TempDir()
				must.Write(t, filepath.Join(cfg.Policy.Dir, "10-odd.cedar"), "permit(principal, action, resource) when { context.nosuch };\n")
			},
			doctor.Check{Result: doctor.Failed, Detail: "10-odd.cedar:1", Remedy: "palyra policy check"},
		},
		{
			"policy",
			func(t *testing.T, cfg *config.Config) {
				cfg.Policy.Dir = t.TempDir()
				must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.test.yaml"),
					"tests:\n  - {name: echo is free, principal: \"user:local\", call: {tool: echo, args: {text: x}}, expect: {verdict: deny}}\n")
			},
			doctor.Check{Result: doctor.Failed, Detail: "10-own.test.yaml:2", Remedy: "palyra policy test"},
		},
		{
			"presence",
			askForPresence,
			doctor.Check{Result: doctor.Warning, Detail: "asked for by presence-required, and no approver", Remedy: "palyra key presence"},
		},
		{
			"policy",
			func(_ *testing.T, cfg *config.Config) { cfg.AllowSensitiveTools = true },
			doctor.Check{Result: doctor.Warning, Detail: "without asking anybody", Remedy: "false"},
		},
		{
			"models",
			func(t *testing.T, cfg *config.Config) {
				path := filepath.Join(t.TempDir(), "key")
				must.Write(t, path, "a-key\n")
				chmod(t, path, 0o644)
				cfg.Models = []config.Model{{Name: "open", Provider: config.ProviderOpenAI, APIKeyFile: path}}
			},
			doctor.Check{Result: doctor.Failed, Detail: "model open", Remedy: "chmod"},
		},
		{
			"models",
			func(t *testing.T, cfg *config.Config) {
				path := filepath.Join(t.TempDir(), "script.yaml")
				must.Write(t, path, "turns:\n  - {txt: hello}\n")
				cfg.Models = []config.Model{{Name: "demo", Provider: config.ProviderScripted, Script: path}}
			},
			doctor.Check{Result: doctor.Failed, Detail: "model demo"},
		},
		{
			"secrets",
			func(t *testing.T, cfg *config.Config) {
				path := filepath.Join(t.TempDir(), "token")
				must.Write(t, path, "a-token-of-somebody\n")
				chmod(t, path, 0o644)
				cfg.Secrets = []config.Secret{{Name: "open", File: path, Hosts: []string{"api.example.org:443"}}}
			},
			doctor.Check{Result: doctor.Failed, Detail: "secret open", Remedy: "chmod"},
		},
	} {
		t.Run(row.exam, func(t *testing.T) {
			if e, ok := before[row.exam]; !ok || e.Result == doctor.Failed || e.Result == doctor.Warning {
				t.Fatalf("before the defect: %+v", e)
			}
			cfg := copied(t, sound)
			cfg.Workspaces = []config.Workspace{{Name: "default", Path: t.TempDir()}}
			row.harm(t, cfg)
			got := checkOf(t, cfg, row.exam)
			if got.Result != row.want.Result || !strings.Contains(got.Detail, row.want.Detail) || !strings.Contains(got.Remedy, row.want.Remedy) {
				t.Errorf("got  %+v\nwant %+v", got, row.want)
			}
		})
	}
}

// The doctor reports whether changes require a second person, with and without a running
// daemon. The status of the daemon reports the same.
func TestDoctorOnDualControl(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	if e := checkOf(t, cfg, "dual control"); e.Result != doctor.Skipped {
		t.Errorf("before the first start: %+v", e)
	}
	d := newTeam(t, cfg)
	notices := d.status().GetNotices()
	if e := checkOf(t, cfg, "dual control"); e.Result != doctor.OK || !strings.HasPrefix(e.Detail, "on: ") || !strings.Contains(e.Detail, "user:bob, user:cyd, user:local") ||
		!slices.ContainsFunc(notices, func(n string) bool {
			return strings.Contains(n, "require a second person; these can answer: user:bob, user:cyd, user:local")
		}) {
		t.Errorf("three who could: %+v, and the status says %q", e, notices)
	}
	off := *cfg
	off.DualControl = false
	if e := checkOf(t, &off, "dual control"); e.Result != doctor.Warning || !strings.Contains(e.Detail, "dual_control = false") {
		t.Errorf("switched off: %+v", e)
	}
	off.AllowedPrincipals = []string{"user:local"}
	if e := checkOf(t, &off, "dual control"); e.Result != doctor.OK || !strings.HasPrefix(e.Detail, "off: ") {
		t.Errorf("switched off, for one: %+v", e)
	}
	one := *cfg
	one.AllowedPrincipals = []string{"user:local"}
	if e := checkOf(t, &one, "dual control"); e.Result != doctor.OK || !strings.HasPrefix(e.Detail, "not in force: ") || !strings.Contains(e.Detail, "user:bob is excluded") {
		t.Errorf("one is let in: %+v", e)
	}
	d.end()
	if e := checkOf(t, cfg, "dual control"); e.Result != doctor.OK || !strings.HasPrefix(e.Detail, "on: ") {
		t.Errorf("while no palyrad runs: %+v", e)
	}
}

// askForPresence adds a policy that requires a vote with proof of presence.
func askForPresence(t *testing.T, cfg *config.Config) {
	t.Helper()
	cfg.Policy.Dir = t.TempDir()
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-there.cedar"), `@id("presence-required")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: true, present: true }) };
`)
}

// The status also reports that policies require presence which no approver can prove.
func TestStatusOnPresence(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"asked": true, "not asked": false} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			if asked {
				askForPresence(t, cfg)
			}
			notices := start(t, cfg).status().GetNotices()
			if told := slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(n, "presence-required, and no approver") }); told != asked {
				t.Errorf("told %v: %q", told, notices)
			}
		})
	}
}

func TestDoctorBesideADaemon(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	before := d.status().GetJournalSize()
	if e := checkOf(t, d.cfg, "daemon"); e.Result != doctor.OK || !strings.Contains(e.Detail, "runs on the state directory") {
		t.Errorf("daemon: %+v", e)
	}
	if e := checkOf(t, d.cfg, "listen.api"); e.Result != doctor.Skipped {
		t.Errorf("listen.api: %+v", e)
	}
	if after := d.status().GetJournalSize(); after != before {
		t.Errorf("the doctor grew the journal from %d to %d", before, after)
	}
	d.end()
	if e := checkOf(t, d.cfg, "daemon"); !strings.Contains(e.Detail, "no palyrad") {
		t.Errorf("after the daemon stopped: %+v", e)
	}
}

// TestDoctorSeesAClockThatIsBehind: the doctor reports a clock that is behind the newest event
// of the journal, which is of tomorrow.
func TestDoctorSeesAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	cfg := stopped(t)
	if e := checkOf(t, cfg, "clock"); e.Result == doctor.Failed {
		t.Fatalf("before: %+v", e)
	}
	ahead := openAhead(t, cfg)
	must.Get(ahead.Append(t.Context(), event.Draft{Code: event.Opened, Actor: journal.Daemon, Payload: []byte(`{}`)}))(t)
	must.Do(t, ahead.Close(t.Context()))
	if e := checkOf(t, cfg, "clock"); e.Result != doctor.Failed || !strings.Contains(e.Remedy, "Set the clock") {
		t.Errorf("clock: %+v", e)
	}
}

func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := Command(&out, &out)
		c.SetArgs(append([]string{"doctor", "--listen-api=127.0.0.1:0", "--listen-metrics=127.0.0.1:0", "--listen-console=127.0.0.1:0", "--process-runner-enabled=false"}, args...))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	dir := filepath.Join(t.TempDir(), "state")
	text, err := run("--state-dir", dir, "-o", "json")
	must.Do(t, err)
	var d doctor.Diagnosis
	if err := json.Unmarshal([]byte(text), &d); err != nil || !d.Healthy || len(d.Checks) < 10 {
		t.Errorf("%v in %s", err, text)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the doctor made the state directory")
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	chmod(t, dir, 0o755)
	text, err = run("--state-dir", dir)
	if err == nil || !strings.Contains(text, "failed   state directory") || !strings.Contains(text, "next: Run `chmod 700") {
		t.Errorf("%v in\n%s", err, text)
	}
	if _, err := run("-o", "yaml"); err == nil || !strings.Contains(err.Error(), "want table or json") {
		t.Errorf("-o yaml: %v", err)
	}
}

func (d *running) status() *palyrav1.GetStatusResponse {
	d.t.Helper()
	return must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(d.t.Context(), &palyrav1.GetStatusRequest{}))(d.t)
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.Chmod(path, mode))
}

// forge changes the actor of the journal's newest events, directly in the file.
func forge(t *testing.T, path string) {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	forged := bytes.ReplaceAll(data, []byte("service:palyrad"), []byte("service:mallory"))
	if bytes.Equal(forged, data) {
		t.Fatal("there was nothing to forge")
	}
	must.Do(t, os.WriteFile(path, forged, 0o600))
}

// keepPasskey stores a passkey of the local operator, for the current name of the console.
func keepPasskey(t *testing.T, cfg *config.Config) {
	t.Helper()
	kept := must.Get(console.ReadKept(statedir.Console(cfg.StateDir)))(t)
	at := must.Get(console.ParseOrigin(kept.Origin))(t)
	db := openAhead(t, cfg)
	must.Do(t, sqlite.NewIdentity(db).KeepPasskey(t.Context(), passkey.Passkey{ID: []byte("id"), Member: access.User("local"), Name: "yubi", RPID: at.Name(), Version: 1}))
	must.Do(t, db.Close(t.Context()))
}

// openAhead opens the store with a clock that is a day ahead.
func openAhead(t *testing.T, cfg *config.Config) *sqlite.DB {
	t.Helper()
	authority := must.Get(ca.Inspect(statedir.Authority(cfg.StateDir), ca.Options{TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames}))(t)
	origin, known, err := journalkey.Origin(authority)
	must.Do(t, err)
	db := must.Get(sqlite.Open(t.Context(), statedir.Store(cfg.StateDir), sqlite.Options{
		Origin: origin, Verifiers: known, Now: func() time.Time { return time.Now().Add(24 * time.Hour) },
	}))(t)
	return db
}

// taken returns an address on which a listener is open until the test ends.
func taken(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
