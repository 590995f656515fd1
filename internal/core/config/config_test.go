package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// world is a home directory with a configuration file.
type world struct {
	t    *testing.T
	home string
	env  map[string]string
}

func newWorld(t *testing.T) *world {
	home := t.TempDir()
	return &world{t: t, home: home, env: map[string]string{"HOME": home}}
}

func (w *world) write(text string) string {
	w.t.Helper()
	path := filepath.Join(w.home, ".config", "palyra", "palyra.toml")
	must.Do(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (w *world) options() LoadOptions {
	return LoadOptions{Env: func(name string) string { return w.env[name] }}
}

func (w *world) load(opts LoadOptions) (*Config, Origins) {
	w.t.Helper()
	c, origins, err := Load(opts)
	must.Do(w.t, err)
	return c, origins
}

func TestDefaultsNeedNoFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, origins := w.load(w.options())
	want := Default()
	want.StateDir = filepath.Join(w.home, ".local", "state", "palyra")
	want.Source = filepath.Join(w.home, ".config", "palyra", "palyra.toml")
	want.Policy.Dir = filepath.Join(w.home, ".config", "palyra", "policies")
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("effective values differ from the defaults (-want +got):\n%s", diff)
	}
	for _, name := range Keys() {
		if origins[name].Source != SourceDefault {
			t.Errorf("%s comes from %s, want default", name, origins[name])
		}
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.write("max_calls_per_run = 5\n[process_runner]\ntier = \"b\"\n[log]\nlevel = \"warn\"\n")
	w.env["PALYRA_PROCESS_RUNNER_TIER"] = "c"
	w.env["PALYRA_LOG_LEVEL"] = "debug"
	opts := w.options()
	opts.Flags = map[string]string{"log.level": "error", "approvals.default_timeout": "90s", "allowed_tools": "fs.*, echo"}
	c, origins := w.load(opts)

	for _, test := range []struct{ key, got, want, origin string }{
		{"max_calls_per_run", show(keyValue(c, "max_calls_per_run")), "5", path + ":1"},
		{"process_runner.tier", c.ProcessRunner.Tier, "c", "env PALYRA_PROCESS_RUNNER_TIER"},
		{"log.level", c.Log.Level, "error", "flag --log-level"},
		{"log.format", c.Log.Format, "text", "default"},
		{"approvals.default_timeout", c.Approvals.DefaultTimeout.String(), "1m30s", "flag --approvals-default-timeout"},
		{"allowed_tools", strings.Join(c.AllowedTools, "|"), "fs.*|echo", "flag --allowed-tools"},
	} {
		if test.got != test.want {
			t.Errorf("%s = %s, want %s", test.key, test.got, test.want)
		}
		if got := origins[test.key].String(); got != test.origin {
			t.Errorf("%s comes from %s, want %s", test.key, got, test.origin)
		}
	}
}

// TestOptional: an optional setting is true, false or unset, from any source.
func TestOptional(t *testing.T) {
	t.Parallel()
	const key, line = "process_runner.allow_interpreters", "[process_runner]\nallow_interpreters = "
	for _, c := range []struct{ file, env, flag, want string }{
		{"", "", "", `"unset"`},
		{line + "true", "", "", "true"},
		{line + "false", "", "", "false"},
		{line + `"unset"`, "", "", `"unset"`},
		{line + "true", "false", "", "false"},
		{line + "true", "unset", "", `"unset"`},
		{line + "true", "false", "unset", `"unset"`},
		{"", "unset", "true", "true"},
	} {
		w := newWorld(t)
		w.write(c.file + "\n")
		opts := w.options()
		if c.env != "" {
			w.env["PALYRA_PROCESS_RUNNER_ALLOW_INTERPRETERS"] = c.env
		}
		if c.flag != "" {
			opts.Flags = map[string]string{key: c.flag}
		}
		loaded, _ := w.load(opts)
		if got := show(keyValue(loaded, key)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestListOfNumbers: a list of numbers can be set in the file, by a variable and by a flag.
func TestListOfNumbers(t *testing.T) {
	t.Parallel()
	const key = "listen.agent_uids"
	for _, c := range []struct{ file, env, flag, want string }{
		{"", "", "", "[]"},
		{"[listen]\nagent_uids = [1000, 1001]", "", "", "[1000, 1001]"},
		{"[listen]\nagent_uids = [1000]", "1002, 1003", "", "[1002, 1003]"},
		{"", "1002", "1004", "[1004]"},
	} {
		w := newWorld(t)
		w.write(c.file + "\n")
		opts := w.options()
		if c.env != "" {
			w.env["PALYRA_LISTEN_AGENT_UIDS"] = c.env
		}
		if c.flag != "" {
			opts.Flags = map[string]string{key: c.flag}
		}
		loaded, _ := w.load(opts)
		if got := show(keyValue(loaded, key)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestEveryKindFromFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.write(`
allow_sensitive_tools = true
listen.api = "127.0.0.1:0"
approvals = { default_timeout = "1h", max_pending_per_run = 7 }

[[workspaces]]
name = "one"
path = "~/one"

[[workspaces]]
name = "two"
path = "/srv/two"
read_only = true

[rate_limits.read]
per_second = 2
burst = 3
`)
	c, origins := w.load(w.options())
	want := []Workspace{{Name: "one", Path: filepath.Join(w.home, "one")}, {Name: "two", Path: "/srv/two", ReadOnly: true}}
	if diff := cmp.Diff(want, c.Workspaces); diff != "" {
		t.Errorf("workspaces (-want +got):\n%s", diff)
	}
	if !c.AllowSensitiveTools || c.Listen.API != "127.0.0.1:0" || c.Approvals.DefaultTimeout != time.Hour ||
		c.Approvals.MaxPendingPerRun != 7 || c.RateLimits.Read != (RateLimit{PerSecond: 2, Burst: 3}) {
		t.Errorf("values were not taken from the file: %+v", c)
	}
	for key, line := range map[string]int{
		"allow_sensitive_tools": 2, "listen.api": 3, "approvals.max_pending_per_run": 4,
		"workspaces": 6, "workspaces[1]": 10, "rate_limits.read.burst": 17,
	} {
		if got := origins[key]; got.Line != line || got.Name != path {
			t.Errorf("%s comes from %+v, want line %d", key, got, line)
		}
	}
}

// TestFindings expects one finding per line of each case, with its position.
func TestFindings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "max_cals_per_run = 1", []string{":1:1: max_cals_per_run does not exist; did you mean max_calls_per_run?"}},
		{"unknown key in a table", "[process_runner]\n  teir = \"c\"", []string{":2:3: process_runner.teir does not exist; did you mean process_runner.tier?"}},
		{"unknown table", "[proces_runner]\ntier = \"c\"", []string{":1:2: proces_runner does not exist; did you mean process_runner?"}},
		{"key in the wrong table", "[log]\nlevel = \"info\"\nallowed_tools = []", []string{":3:1: log.allowed_tools does not exist; did you mean allowed_tools?"}},
		{"key that another table has", "[listen]\naddress = \"x\"", []string{":2:1: listen.address does not exist; did you mean client.address? A key belongs to the [table] above it; the keys of listen are agent_uids, agents, allow_remote, api, "}},
		{"key of another table", "tier = \"c\"", []string{":1:1: tier does not exist; did you mean process_runner.tier?"}},
		{"unknown key of a list of tables", "[[workspaces]]\nname = \"a\"\npath = \"/a\"\nreadonly = true", []string{":4:1: workspaces[0].readonly does not exist; did you mean workspaces[0].read_only?"}},
		{"wrong types, all of them", "max_calls_per_run = \"many\"\nallow_sensitive_tools = 1\nlisten = 3\nworkspaces = \"x\"\nroles = [1]\n[approvals]\ncooldown = 60", []string{
			`:2:1: allow_sensitive_tools wants true or false, not 1`,
			`:7:1: approvals.cooldown wants a duration such as "90s" or "10m", not 60`,
			`:3:1: listen wants a table, not 3`,
			`:1:1: max_calls_per_run wants a whole number, not the string "many"`,
			`:5:1: roles wants a list of strings, not a list with 1`,
			`:4:1: workspaces wants a list of tables, not the string "x"; write [[workspaces]]`,
		}},
		{"no users", "[listen]\nagent_uids = [\"ann\"]", []string{`:2:1: listen.agent_uids wants a list of whole numbers, not a list with the string "ann"`}},
		{"neither", "[process_runner]\nallow_interpreters = \"maybe\"", []string{`:2:1: process_runner.allow_interpreters wants true or false, or "unset", not the string "maybe"`}},
		{"not TOML", "a = \n", []string{":1:", "is not valid TOML"}},
		{"twice", "max_calls_per_run = 1\nmax_calls_per_run = 2", []string{":2:", "is not valid TOML"}},
		{"a duration", "[approvals]\ncooldown = \"soon\"", []string{`:2:1: approvals.cooldown wants a duration such as "90s" or "10m", not "soon"`}},
		{"ranges", "max_calls_per_run = 0\nexecution_timeout_ms = 5\n[approvals]\ndefault_timeout = \"1s\"", []string{
			":1:1: max_calls_per_run is 0; set it between 1 and 1000000",
			":2:1: execution_timeout_ms is 5; set it between 100 and 86400000",
			":4:1: approvals.default_timeout is 1s; set it between 30s and 24h",
		}},
		{"not a number", "[rate_limits.read]\nper_second = nan", []string{"rate_limits.read.per_second is NaN; set it"}},
		{"remote API", "[listen]\napi = \"0.0.0.0:7443\"", []string{":2:1: listen.api is \"0.0.0.0:7443\", which other machines can reach; set listen.allow_remote = true"}},
		{"every interface", "[listen]\napi = \":7443\"", []string{"set listen.allow_remote = true"}},
		{"remote API without a name", "[listen]\napi = \"[::]:7443\"\nallow_remote = true", []string{"name the host as others reach it in listen.server_names"}},
		{"remote metrics", "[listen]\nallow_remote = true\nmetrics = \"0.0.0.0:7144\"", []string{":3:1: listen.metrics is"}},
		{"server name", "[listen]\nserver_names = [\"https://x\"]", []string{"listen.server_names has \"https://x\""}},
		{"remote agents", "[listen]\nallow_remote = true\nagents = \"0.0.0.0:7143\"", []string{":3:1: listen.agents is"}},
		{"not host:port", "[listen]\napi = \"7443\"", []string{`listen.api is "7443"; set it to "host:port"`}},
		{"words", "[process_runner]\ntier = \"C\"\negress_enforcement_mode = \"off\"", []string{
			"process_runner.tier is \"C\"; set it to one of c, b",
			"process_runner.egress_enforcement_mode is \"off\"; set it to one of strict, preflight, unrestricted",
		}},
		{"hosts without a port", "[process_runner]\nallowed_egress_hosts = [\"example.org\", \"10.0.0.0/8\", \"::1\", \"ok.org:443\", \"[2001:db8::/32]:80\"]", []string{
			`:2:1: process_runner.allowed_egress_hosts has "example.org", which names no port; write the port that programs may reach, such as example.org:443`,
			`:2:1: process_runner.allowed_egress_hosts has "10.0.0.0/8", which names no port; write the port that programs may reach, such as 10.0.0.0/8:443`,
			`:2:1: process_runner.allowed_egress_hosts has "::1", which names no port; write the port that programs may reach, such as [::1]:443`,
		}},
		{"ports that are none", "[process_runner]\nallowed_egress_hosts = [\"a.org:0\"]\ndenied_egress_hosts = [\"b.org:99999\"]", []string{
			`:2:1: process_runner.allowed_egress_hosts has "a.org:0"; use a port from 1 to 65535`,
			`:3:1: process_runner.denied_egress_hosts has "b.org:99999"; use a port from 1 to 65535`,
		}},
		{"too many ports", "[process_runner]\nallowed_egress_hosts = [" + manyPorts(65) + "]", []string{
			`:2:1: process_runner.allowed_egress_hosts has 65 different ports; use at most 64`,
		}},
		{"no mode", "[process_runner]\negress_enforcement_mode = \"off\"\nallowed_egress_hosts = [\"a.org\"]\n[process_runner.egress_budget]\nrequests = 5", []string{
			`process_runner.egress_enforcement_mode is "off"`,
			`:3:1: process_runner.allowed_egress_hosts has "a.org", which names no port`,
		}},
		{"egress budget", "[process_runner.egress_budget]\nconnections = 0\nconnection_time_ms = 5", []string{
			":2:1: process_runner.egress_budget.connections is 0; set it between 1 and 1000000",
			":3:1: process_runner.egress_budget.connection_time_ms is 5; set it between 1000 and 86400000",
		}},
		{"inspection", "[process_runner]\nallowed_egress_hosts = [\"a.org:443\"]\n[[process_runner.inspect]]\nhost = \"a.org\"\nmethods = [\"get\"]\npaths = [\"x/**\", \"/a/**/b\", \"/[\"]\n[[process_runner.inspect]]\nhost = \"A.org\"", []string{
			`:4:1: process_runner.inspect[0].host has "a.org", which names no port`,
			`:5:1: process_runner.inspect[0].methods has "get"; write methods in upper case`,
			`:6:1: process_runner.inspect[0].paths has "x/**"; use a pattern from the root`,
			`process_runner.inspect[0].paths has "/a/**/b"`, `process_runner.inspect[0].paths has "/["`,
			`:8:1: process_runner.inspect[1].host has "A.org", which names no port`,
			`:8:1: process_runner.inspect[1].host is "A.org" for the second time`,
		}},
		{"inspection of nothing", "[[process_runner.inspect]]\nhost = \"a.org:443\"", []string{
			`:1:3: process_runner.inspect has no effect without hosts that programs may reach`,
		}},
		{"what only strict has", "[process_runner]\negress_enforcement_mode = \"preflight\"\n[process_runner.egress_budget]\nrequests = 5\n[[process_runner.inspect]]\nhost = \"a.org:443\"", []string{
			`:4:1: process_runner.egress_budget.requests has no effect with egress_enforcement_mode "preflight"`,
			`:5:3: process_runner.inspect has no effect with egress_enforcement_mode "preflight"`,
		}},
		{"hosts that nothing looks at", "[process_runner]\negress_enforcement_mode = \"none\"\nallowed_egress_hosts = [\"example.org\"]", []string{
			`:3:1: process_runner.allowed_egress_hosts has no effect with egress_enforcement_mode "unrestricted", which checks nothing`,
		}},
		{"preflight", "[process_runner]\negress_enforcement_mode = \"preflight\"\nallowed_egress_hosts = [\"https://example.org\"]\nallowed_dns_suffixes = [\"*.example.org\"]\nrequired_layers = [\"network_namespace\", \"secomp\"]", []string{
			`:3:1: process_runner.allowed_egress_hosts has "https://example.org"; leave out scheme`,
			`:4:1: process_runner.allowed_dns_suffixes has "*.example.org"; use a domain such as example.org`,
			`:5:1: process_runner.required_layers has "network_namespace", which egress_enforcement_mode "preflight" does without`,
			`:5:1: process_runner.required_layers has "secomp", which is not a layer; did you mean seccomp?`,
		}},
		{"the ladder", "[process_runner]\ntier = \"b\"\nfallback = \"anything\"\ncaches = [\"go\", \"maven\"]\nprepared = 65\nuid_base = 2147483640\nuid_count = 100", []string{
			`:3:1: process_runner.fallback is "anything"; set it to one of none, user_namespaces, landlock`,
			`:4:1: process_runner.caches is "maven"; set it to one of go, npm, pip, cargo`,
			`:5:1: process_runner.prepared is 65; set it between 0 and 64`,
			`:7:1: process_runner.uid_count is 100, which goes beyond the greatest user id`,
		}},
		{"how a workspace is written", "[[workspaces]]\nname = \"a\"\npath = \"/a\"\nmode = \"overlay\"\nprotected = [\"deploy/*.yaml\", \"/etc\", \"../x\", \"a[\"]", []string{
			`:4:1: workspaces[0].mode is "overlay"; set it to one of copy_on_write, direct`,
			`:5:1: workspaces[0].protected has "/etc"; use a pattern relative to the workspace`,
			`workspaces[0].protected has "../x"`, `workspaces[0].protected has "a["`,
		}},
		{"a class that does not exist", "[rate_limits.write]\nburst = 1", []string{":1:2: rate_limits.write does not exist"}},
		{"roles", "roles = [\"owner\", \"Bad\", \"x\", \"x\"]", []string{"roles has \"owner\", which always exists", "roles has role \"Bad\"", "roles has \"x\" twice"}},
		{"workspaces", "state_dir = \"/s/t\"\n[[workspaces]]\nname = \"a\"\npath = \"rel\"\n[[workspaces]]\nname = \"a\"\npath = \"/s/t/u\"\n[[workspaces]]\nname = \"B!\"\npath = \"/\"\n[[workspaces]]\nname = \"c\"\npath = \"/s\"", []string{
			`:4:1: workspaces[0].path is "rel", which is not an absolute path`,
			`:6:1: workspaces[1].name is "a" for the second time`,
			`:7:1: workspaces[1].path is "/s/t/u", which overlaps palyrad's own state`,
			`:9:1: workspaces[2].name is "B!"`,
			`:10:1: workspaces[2].path is the root of the file system`,
			`:13:1: workspaces[3].path is "/s", which overlaps palyrad's own state`,
		}},
		{"policy directory", "policy.dir = \"/does/not/exist\"", []string{"policy.dir is \"/does/not/exist\", which is not a directory"}},
		{"hosts", "[http]\nallowed_hosts = [\"https://x.org\", \"*\", \"*:443\", \"a b\"]", []string{"has \"https://x.org\"; leave out scheme", "has \"*\"", "has \"*:443\"; name the hosts", "has \"a b\""}},
		{"executables", "[process_runner]\nallowed_executables = [\"bin/git\"]", []string{"has \"bin/git\"; use a base name"}},
		{"tools", "allowed_tools = [\"fs.*\", \"a*b\"]", []string{"allowed_tools has \"a*b\""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			path := w.write(test.text)
			findings := Check(w.options())
			text := findings.Error()
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("findings:\n%s\nlack %q", text, want)
				}
			}
			if !strings.Contains(text, path+":") {
				t.Errorf("findings:\n%s\ndo not name the file", text)
			}
			_, _, err := Load(w.options())
			if reason.Of(err) != reason.ConfigInvalid {
				t.Errorf("Load gives %v, want %s", err, reason.ConfigInvalid)
			}
			var wrapped Findings
			if !errors.As(err, &wrapped) || len(wrapped) != len(findings) {
				t.Errorf("Load's error wraps %d findings, want %d", len(wrapped), len(findings))
			}
		})
	}
}

func TestRemoteListenIsPossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("[listen]\napi = \"0.0.0.0:7443\"\nallow_remote = true\nserver_names = [\"gw.example.org\", \"192.0.2.1\"]")
	if c, _ := w.load(w.options()); c.Listen.API != "0.0.0.0:7443" {
		t.Errorf("listen.api = %s", c.Listen.API)
	}
}

func TestWorkspaceBehindSymlinkMayNotHoldState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	state := filepath.Join(w.home, ".local", "state")
	must.Do(t, os.MkdirAll(state, 0o700))
	link := filepath.Join(w.home, "link")
	if err := os.Symlink(state, link); err != nil {
		t.Skip("no symlinks here:", err)
	}
	w.write("[[workspaces]]\nname = \"a\"\npath = \"~/link\"")
	if text := Check(w.options()).Error(); !strings.Contains(text, "overlaps") {
		t.Errorf("findings: %q, want an overlap", text)
	}
}

func TestBadVariablesAndFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["PALYRA_MAX_CALLS_PER_RUN"] = "lots"
	w.env["PALYRA_LOG_LEVEL"] = "loud"
	opts := w.options()
	opts.Flags = map[string]string{"listen.apy": "x", "process_runner.enabled": "perhaps", "workspaces": "x"}
	text := Check(opts).Error()
	for _, want := range []string{
		`env PALYRA_MAX_CALLS_PER_RUN: max_calls_per_run wants a whole number, not "lots"`,
		`env PALYRA_LOG_LEVEL: log.level is "loud"; set it to one of`,
		`flag --listen-apy: listen.apy does not exist; did you mean listen.api?`,
		`flag --process-runner-enabled: process_runner.enabled wants true or false, not "perhaps"`,
		`flag --workspaces: workspaces cannot be set by a variable or flag`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("findings:\n%s\nlack %q", text, want)
		}
	}
}

func TestNamedFileMustExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opts := w.options()
	opts.Path = filepath.Join(w.home, "absent.toml")
	if text := Check(opts).Error(); !strings.Contains(text, "absent.toml:1: cannot be read") {
		t.Errorf("findings: %q", text)
	}
	opts = w.options()
	w.env["PALYRA_CONFIG"] = filepath.Join(w.home, "other.toml")
	if text := Check(opts).Error(); !strings.Contains(text, "other.toml:1: cannot be read") {
		t.Errorf("findings: %q", text)
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	system := filepath.Join(home, "etc.toml")
	user := filepath.Join(home, ".config", "palyra", "palyra.toml")
	at := func(root bool) machine {
		m := machineOf(func(name string) string { return map[string]string{"HOME": home}[name] })
		m.root, m.systemFile = root, system
		return m
	}
	write := func(path string) {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, nil, 0o600))
	}
	if got := at(true).locate(); got != user {
		t.Errorf("with no file at all: %s, want the user's place", got)
	}
	write(system)
	if got := at(true).locate(); got != system {
		t.Errorf("root without a file of its own reads %s, want %s", got, system)
	}
	if got := at(false).locate(); got != user {
		t.Errorf("a user reads %s, want %s", got, user)
	}
	write(user)
	if got := at(true).locate(); got != user {
		t.Errorf("root with a file of its own reads %s, want %s", got, user)
	}
}

func TestXDG(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["XDG_STATE_HOME"] = filepath.Join(w.home, "st")
	w.env["XDG_CONFIG_HOME"] = "relative/is/ignored"
	w.write("max_calls_per_run = 9")
	c, _ := w.load(w.options())
	if c.StateDir != filepath.Join(w.home, "st", "palyra") || c.MaxCallsPerRun != 9 {
		t.Errorf("state_dir = %s, max_calls_per_run = %d", c.StateDir, c.MaxCallsPerRun)
	}
}

func TestNoHome(t *testing.T) {
	t.Parallel()
	m := machineOf(func(string) string { return "" })
	m.root = false
	c, origins := Default(), Origins{"state_dir": {Source: SourceDefault}}
	m.fill(c, m.locate(), origins)
	if text := check(c, origins).Error(); !strings.Contains(text, "state_dir is not known") {
		t.Errorf("findings: %q", text)
	}
}

func TestPolicyDirectoryDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.write("")
	dir := filepath.Join(filepath.Dir(path), "policies")
	if c, _ := w.load(w.options()); c.Policy.Dir != dir {
		t.Errorf("policy.dir = %q before the directory is there, want %q", c.Policy.Dir, dir)
	}
	must.Do(t, os.WriteFile(dir, nil, 0o600))
	if _, _, err := Load(w.options()); err == nil || !strings.Contains(err.Error(), "which is not a directory") {
		t.Errorf("a file in the place of the policy directory: %v", err)
	}
	must.Do(t, os.Remove(dir))
	must.Do(t, os.Mkdir(dir, 0o700))
	if c, _ := w.load(w.options()); c.Policy.Dir != dir {
		t.Errorf("policy.dir = %q, want %q", c.Policy.Dir, dir)
	}
	w.write("policy.dir = \"\"")
	if c, _ := w.load(w.options()); c.Policy.Dir != "" {
		t.Errorf("policy.dir = %q though the file says none", c.Policy.Dir)
	}
}

func TestToolAllowed(t *testing.T) {
	t.Parallel()
	c := &Config{AllowedTools: []string{"echo", "fs.*", "github/*"}}
	for name, want := range map[string]bool{
		"echo": true, "echoes": false, "fs.read": true, "fsx": false, "github/issues": true, "git": false, "": false,
	} {
		if got := c.ToolAllowed(name); got != want {
			t.Errorf("ToolAllowed(%q) = %v, want %v", name, got, want)
		}
	}
	if (&Config{}).ToolAllowed("echo") {
		t.Error("an empty list allows a tool")
	}
}

func TestEnvNamesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]string{"PALYRA_CONFIG": "the file"}
	for key, name := range envNames() {
		if other := seen[name]; other != "" {
			t.Errorf("%s and %s are both overridden by %s", key, other, name)
		}
		seen[name] = key
	}
	if envNames()["client.address"] != "PALYRA_ADDRESS" || envNames()["listen.api"] != "PALYRA_LISTEN_API" {
		t.Errorf("names: %v", envNames())
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, origins := w.load(w.options())
	list := Settings(c, origins)
	i := slices.IndexFunc(list, func(s Setting) bool { return s.Key == "approvals.default_timeout" })
	if i < 0 || list[i].Value != "10m" || list[i].TOML != `"10m"` || list[i].Origin.String() != "default" {
		t.Errorf("settings: %+v", list)
	}
	if len(list) != len(Keys()) {
		t.Errorf("%d settings for %d keys", len(list), len(Keys()))
	}
}

// TestSettingsHaveTypes: a setting has the same type in the machine-readable output as in the
// file, and a duration has the same text.
func TestSettingsHaveTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("[[workspaces]]\nname = \"a\"\npath = \"/a\"\nread_only = true\nprotected = [\"x/**\"]")
	c, origins := w.load(w.options())
	values := make(map[string]any)
	for _, s := range Settings(c, origins) {
		values[s.Key] = s.Value
	}
	text := must.Get(json.Marshal(values))(t)
	for _, want := range []string{
		`"max_calls_per_run":200`, `"allow_sensitive_tools":false`, `"allowed_tools":["*"]`, `"models":[]`, `"process_runner.caches":[]`,
		`"sessions.idle":"30m"`, `"process_runner.allow_interpreters":null`, `"listen.api":"127.0.0.1:7443"`, `"rate_limits.read.per_second":100`, `"roles":["security"]`,
		`"workspaces":[{"mode":"","name":"a","path":"/a","protected":["x/**"],"read_only":true}]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestSettingsAreTOML parses the output of `config show`.
func TestSettingsAreTOML(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("allowed_tools = [\"a\\\"b.c<\\u007f\\u0001>\"]\n[[workspaces]]\nname = \"a\"\npath = \"/a\"\nread_only = true")
	c, _, findings := load(w.options())
	if len(findings) != 1 {
		t.Fatalf("findings: %v", findings)
	}
	var text strings.Builder
	for _, s := range Settings(c, Origins{}) {
		text.WriteString(s.Key + " = " + s.TOML + "\n")
	}
	again := &Config{}
	if f := applyFile("shown", []byte(text.String()), again, Origins{}); len(f) > 0 {
		t.Fatalf("%v in:\n%s", f, text.String())
	}
	again.Source = c.Source // not a setting
	if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is shown reads differently (-is +shown):\n%s", diff)
	}
}

// FuzzFile: no text causes a panic, and every finding has a position.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"", "a=1", "[[workspaces]]\nname=\"x\"", "listen = {api=\"x\"}", "workspaces=[{name=\"a\"},{b=1}]", "[workspaces.x]\n[[workspaces]]", "a.b.c = [[1],{x=2}]", "[[a]]\n[[a.b]]\n[a.b.c]\nd=1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		for _, finding := range applyFile("f", text, c, Origins{}) {
			if finding.Origin.Line < 1 || finding.Message == "" {
				t.Errorf("finding without place or message: %+v", finding)
			}
		}
	})
}

// TestSourceIsNoKey: Source contains the path of the file, and the file cannot set it.
func TestSourceIsNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.write("max_calls_per_run = 5\n")
	if c, _ := w.load(w.options()); c.Source != path {
		t.Errorf("the source is %q, want %q", c.Source, path)
	}
	w.write("\"-\" = \"/elsewhere\"\n")
	if _, _, err := Load(w.options()); err == nil {
		t.Error("the file sets its own place")
	}
}

// A workspace that contains the rules about itself is refused before the daemon starts.
// Control: the same workspace with the rules elsewhere.
func TestWorkspacesHoldNoRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "outside", "palyra.toml")
	for name, c := range map[string]struct{ workspace, policies, want string }{
		"the control":            {filepath.Join(dir, "ws"), filepath.Join(dir, "policies"), ""},
		"the policies inside":    {filepath.Join(dir, "ws"), filepath.Join(dir, "ws", "policies"), "policy.dir"},
		"inside the policies":    {filepath.Join(dir, "policies", "ws"), filepath.Join(dir, "policies"), "policy.dir"},
		"the file inside":        {filepath.Dir(path), filepath.Join(dir, "policies"), "the configuration file"},
		"the credentials inside": {filepath.Join(dir, "bundle"), filepath.Join(dir, "policies"), "client.credentials"},
	} {
		must.Do(t, os.MkdirAll(c.policies, 0o700))
		cfg := Default()
		cfg.StateDir, cfg.Source, cfg.Policy.Dir = filepath.Join(dir, "state"), path, c.policies
		cfg.Client.Credentials = filepath.Join(dir, "bundle")
		cfg.Workspaces = []Workspace{{Name: "ws", Path: c.workspace}}
		found := check(cfg, Origins{})
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found.Error(), c.want)) {
			t.Errorf("%s: %q, want %q", name, found.Error(), c.want)
		}
	}
}

// A client ignores errors in settings that it does not use, and refuses errors in settings that
// it uses.
func TestLoadClient(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.toml")
	load := func(text string) (*Config, Findings, error) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		c, _, others, err := LoadClient(LoadOptions{Path: path, Env: func(string) string { return "" }})
		return c, others, err
	}
	c, others, err := load("max_call = 1\nstate_dir = \"/s\"\n[client]\naddress = \"127.0.0.1:7555\"\n[log]\nlevel = 3\n")
	if err != nil || len(others) != 2 || c.StateDir != "/s" || c.Client.Address != "127.0.0.1:7555" {
		t.Errorf("%+v, %q, %v", c, others, err)
	}
	for _, text := range []string{"state_dir = 1\n", "[client]\nadress = \"x\"\n", "= not TOML"} {
		if _, _, err := load(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// manyPorts returns rules with n different ports, as a TOML list.
func manyPorts(n int) string {
	rules := make([]string, n)
	for i := range rules {
		rules[i] = fmt.Sprintf("%q", fmt.Sprintf("a.org:%d", 1000+i))
	}
	return strings.Join(rules, ", ")
}

// The older word for the machine's network remains valid, with a note.
func TestNoneIsUnrestricted(t *testing.T) {
	t.Parallel()
	for word, notes := range map[string]int{"none": 1, "unrestricted": 0} {
		w := newWorld(t)
		w.write("[process_runner]\negress_enforcement_mode = \"" + word + "\"\n")
		c, _ := w.load(w.options())
		if c.ProcessRunner.EgressEnforcementMode != EgressUnrestricted || len(c.Notes) != notes {
			t.Errorf("%s: mode %q, notes %q", word, c.ProcessRunner.EgressEnforcementMode, c.Notes)
		}
	}
}
