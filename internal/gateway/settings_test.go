package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/builtin"
)

func workspaceAt(t *testing.T) config.Workspace {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	return config.Workspace{Name: "default", Path: dir}
}

// elsewhere are the keys that do not limit calls, with their purpose.
var elsewhere = map[string]string{
	"state_dir": "where the daemon keeps its own", "trust_domain": "names in certificates",
	"listen.max_connections": "listeners", "listen.max_connections_per_address": "listeners", "stop_timeout": "when the daemon ends",
	"listen.socket_operator": "listeners",
	"listen.api":             "listeners", "listen.allow_remote": "listeners", "listen.server_names": "listeners", "listen.metrics": "listeners", "listen.console": "listeners", "console.": "listeners", "listen.agents": "listeners", "listen.agent_uids": "listeners", "listen.hooks": "listeners",
	"wasm_runtime.worker": "where a program is, whose digest names the code that it compiled",
	"keys.":               "where the daemon keeps its own",
	"vault.":              "where the daemon keeps its own",
	"presence.":           "who proves to be there",
	"notify":              "who is told",
	"log.level":           "the log", "log.format": "the log",
	"dual_control":              "who changes the gateway itself",
	"policy.dir":                "the policies themselves are in the snapshot",
	"approvals.default_timeout": "when people are asked", "approvals.max_pending_per_run": "when people are asked",
	"approvals.max_pending_per_principal": "when people are asked", "approvals.max_created_per_minute_per_run": "when people are asked",
	"approvals.max_created_per_minute_per_principal": "when people are asked",
	"approvals.cooldown":                             "when people are asked",
	"results.":                                       "what becomes of results afterwards",
	"storage.":                                       "what is recorded on a full disk",
	"quotas.":                                        "how much is recorded",
	"rate_limits.":                                   "how often the API answers",
	"client.":                                        "the command's own",
	"oauth_issuers":                                  "who the members are",
	"evaluators":                                     "who asks what others may do",
	"oidc.":                                          "who the members are",
	"mcp_clients":                                    "when a client is answered",
	"process_runner.max_waiting":                     "how many calls wait for their turn",
	"process_runner.prepared":                        "how soon a sandbox is ready",
	"process_runner.reserve_processes":               "what palyrad keeps for itself",
	"process_runner.reserve_memory_bytes":            "what palyrad keeps for itself",
	"runs.":                                          "when a run ends", "models": "who proposes",
}

// TestSnapshotHoldsTheSecuritySettings changes every key that limits calls. Each change gives
// another snapshot digest.
func TestSnapshotHoldsTheSecuritySettings(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*config.Config){
		"roles":                 func(c *config.Config) { c.Roles = append(slices.Clone(c.Roles), "legal") },
		"allowed_tools":         func(c *config.Config) { c.AllowedTools = []string{"echo"} },
		"allowed_principals":    func(c *config.Config) { c.AllowedPrincipals = []string{"user:local"} },
		"allowed_channels":      func(c *config.Config) { c.AllowedChannels = []string{"ops"} },
		"allow_sensitive_tools": func(c *config.Config) { c.AllowSensitiveTools = true },
		"max_calls_per_run":     func(c *config.Config) { c.MaxCallsPerRun++ },
		"max_calls_per_session": func(c *config.Config) { c.MaxCallsPerSession++ },
		"sessions.idle":         func(c *config.Config) { c.Sessions.Idle += time.Second },
		"execution_timeout_ms":  func(c *config.Config) { c.ExecutionTimeoutMS++ },
		"workspaces": func(c *config.Config) {
			c.Workspaces = append(slices.Clone(c.Workspaces), config.Workspace{Name: "b", Path: "/b"})
		},
		"workspaces.name": func(c *config.Config) { c.Workspaces = []config.Workspace{{Name: "b", Path: c.Workspaces[0].Path}} },
		"workspaces.path": func(c *config.Config) { c.Workspaces = []config.Workspace{{Name: "default", Path: "/b"}} },
		"workspaces.read_only": func(c *config.Config) {
			c.Workspaces = []config.Workspace{{Name: "default", Path: c.Workspaces[0].Path, ReadOnly: true}}
		},
		"process_runner.enabled":                          func(c *config.Config) { c.ProcessRunner.Enabled = !c.ProcessRunner.Enabled },
		"process_runner.allowed_executables":              func(c *config.Config) { c.ProcessRunner.AllowedExecutables = []string{"git"} },
		"process_runner.allow_interpreters":               func(c *config.Config) { c.ProcessRunner.AllowInterpreters = new(true) },
		"process_runner.toolchains":                       func(c *config.Config) { c.ProcessRunner.Toolchains = []string{"/opt/tools"} },
		"process_runner.strict_exec":                      func(c *config.Config) { c.ProcessRunner.StrictExec = true },
		"process_runner.cpu_time_limit_ms":                func(c *config.Config) { c.ProcessRunner.CPUTimeLimitMS++ },
		"process_runner.memory_limit_bytes":               func(c *config.Config) { c.ProcessRunner.MemoryLimitBytes++ },
		"process_runner.max_output_bytes":                 func(c *config.Config) { c.ProcessRunner.MaxOutputBytes++ },
		"process_runner.max_processes":                    func(c *config.Config) { c.ProcessRunner.MaxProcesses++ },
		"process_runner.max_concurrent":                   func(c *config.Config) { c.ProcessRunner.MaxConcurrent++ },
		"process_runner.disk_limit_bytes":                 func(c *config.Config) { c.ProcessRunner.DiskLimitBytes++ },
		"process_runner.max_files":                        func(c *config.Config) { c.ProcessRunner.MaxFiles++ },
		"process_runner.tmp_limit_bytes":                  func(c *config.Config) { c.ProcessRunner.TmpLimitBytes++ },
		"process_runner.tier":                             func(c *config.Config) { c.ProcessRunner.Tier = config.TierB },
		"process_runner.fallback":                         func(c *config.Config) { c.ProcessRunner.Fallback = config.FallbackLandlock },
		"process_runner.required_layers":                  func(c *config.Config) { c.ProcessRunner.RequiredLayers = []string{"landlock"} },
		"process_runner.caches":                           func(c *config.Config) { c.ProcessRunner.Caches = []string{"go"} },
		"process_runner.cache_limit_bytes":                func(c *config.Config) { c.ProcessRunner.CacheLimitBytes++ },
		"process_runner.uid_base":                         func(c *config.Config) { c.ProcessRunner.UIDBase++ },
		"process_runner.uid_count":                        func(c *config.Config) { c.ProcessRunner.UIDCount++ },
		"process_runner.egress_enforcement_mode":          func(c *config.Config) { c.ProcessRunner.EgressEnforcementMode = config.EgressUnrestricted },
		"process_runner.allowed_egress_hosts":             func(c *config.Config) { c.ProcessRunner.AllowedEgressHosts = []string{"example.org:443"} },
		"process_runner.allowed_dns_suffixes":             func(c *config.Config) { c.ProcessRunner.AllowedDNSSuffixes = []string{"example.org"} },
		"process_runner.denied_egress_hosts":              func(c *config.Config) { c.ProcessRunner.DeniedEgressHosts = []string{"example.org"} },
		"process_runner.egress_budget.connections":        func(c *config.Config) { c.ProcessRunner.EgressBudget.Connections++ },
		"process_runner.egress_budget.concurrent":         func(c *config.Config) { c.ProcessRunner.EgressBudget.Concurrent++ },
		"process_runner.egress_budget.bytes_out":          func(c *config.Config) { c.ProcessRunner.EgressBudget.BytesOut++ },
		"process_runner.egress_budget.bytes_in":           func(c *config.Config) { c.ProcessRunner.EgressBudget.BytesIn++ },
		"process_runner.egress_budget.requests":           func(c *config.Config) { c.ProcessRunner.EgressBudget.Requests++ },
		"process_runner.egress_budget.connection_time_ms": func(c *config.Config) { c.ProcessRunner.EgressBudget.ConnectionTimeMS++ },
		"process_runner.inspect": func(c *config.Config) {
			c.ProcessRunner.AllowedEgressHosts = []string{"example.org:443"}
			c.ProcessRunner.Inspect = []config.Inspect{{Host: "example.org:443", Methods: []string{"GET"}, Paths: []string{"/**"}}}
		},
		"workspaces.mode": func(c *config.Config) {
			c.Workspaces = []config.Workspace{{Name: "default", Path: c.Workspaces[0].Path, Mode: config.ModeDirect}}
		},
		"workspaces.protected": func(c *config.Config) {
			c.Workspaces = []config.Workspace{{Name: "default", Path: c.Workspaces[0].Path, Protected: []string{"deploy/**"}}}
		},
		"secrets":            func(c *config.Config) { c.Secrets = []config.Secret{{Name: "a"}} },
		"http.allowed_hosts": func(c *config.Config) { c.HTTP.AllowedHosts = []string{"example.org"} },
		"http.denied_hosts":  func(c *config.Config) { c.HTTP.DeniedHosts = []string{"example.org"} },
		"http.max_bytes":     func(c *config.Config) { c.HTTP.MaxBytes++ },
		"http.timeout_ms":    func(c *config.Config) { c.HTTP.TimeoutMS++ },

		"skills.enabled":                    func(c *config.Config) { c.Skills.Enabled = false },
		"skills.allow_wildcards":            func(c *config.Config) { c.Skills.AllowWildcards = true },
		"skills.max_storage_bytes":          func(c *config.Config) { c.Skills.MaxStorageBytes++ },
		"wasm_runtime.enabled":              func(c *config.Config) { c.WASM.Enabled = false },
		"wasm_runtime.allow_inline_modules": func(c *config.Config) { c.WASM.AllowInlineModules = true },
		"wasm_runtime.fuel_budget":          func(c *config.Config) { c.WASM.FuelBudget++ },
		"wasm_runtime.fuel_ceiling":         func(c *config.Config) { c.WASM.FuelCeiling++ },
		"wasm_runtime.max_memory_bytes":     func(c *config.Config) { c.WASM.MaxMemoryBytes++ },
		"wasm_runtime.max_table_elements":   func(c *config.Config) { c.WASM.MaxTableElements++ },
		"wasm_runtime.max_module_bytes":     func(c *config.Config) { c.WASM.MaxModuleBytes++ },
		"wasm_runtime.max_output_bytes":     func(c *config.Config) { c.WASM.MaxOutputBytes++ },
		"wasm_runtime.time_limit_ms":        func(c *config.Config) { c.WASM.TimeLimitMS++ },
		"wasm_runtime.max_concurrent":       func(c *config.Config) { c.WASM.MaxConcurrent++ },
	}
	for _, key := range config.Keys() {
		known := changes[key] != nil
		for prefix := range elsewhere {
			known = known || key == prefix || strings.HasSuffix(prefix, ".") && strings.HasPrefix(key, prefix)
		}
		if !known {
			t.Errorf("%s: does it bound what a call may do? Put it into the snapshot and into this test, or say what it is for", key)
		}
	}
	home := workspaceAt(t)
	digest := func(change func(*config.Config)) string {
		cfg := config.Default()
		cfg.Workspaces = []config.Workspace{home}
		if change != nil {
			change(cfg)
		}
		return snapshotOf(t, cfg)
	}
	was := digest(nil)
	if again := digest(nil); again != was {
		t.Fatalf("the same settings give %s and %s", was, again)
	}
	for key, change := range changes {
		if digest(change) == was {
			t.Errorf("%s changes nothing in the snapshot", key)
		}
	}
	// Control: a key that limits no call does not change the digest.
	if digest(func(c *config.Config) { c.Log.Level = "debug" }) != was {
		t.Error("the log's level is in the snapshot")
	}
}

// snapshotOf returns the snapshot digest of the settings.
func snapshotOf(t *testing.T, cfg *config.Config) string {
	t.Helper()
	tools := must.Get(builtinConfig(cfg, nil, isolation{}))(t)
	var list []tool.Descriptor
	for _, b := range builtin.New(tools) {
		list = append(list, b.Descriptor())
	}
	members := []access.Member{{Principal: access.User("local"), Roles: []access.Role{access.RoleOwner}}}
	set := must.Get(policy.Load(policyadmin.SetConfig(cfg, nil, list, members, cfg.Roles)))(t)
	return set.SnapshotDigest()
}

// TestWorkspacesHoldNoRules: the daemon refuses to start with a workspace that contains its own
// settings, which an agent could then rewrite.
func TestWorkspacesHoldNoRules(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(cfg *config.Config, dir string){
		"state_dir":              func(cfg *config.Config, dir string) { cfg.StateDir = filepath.Join(dir, "state") },
		"policy.dir":             func(cfg *config.Config, dir string) { cfg.Policy.Dir = filepath.Join(dir, "policies") },
		"the configuration file": func(cfg *config.Config, dir string) { cfg.Source = filepath.Join(dir, "palyra.toml") },
		"client.credentials":     func(cfg *config.Config, dir string) { cfg.Client.Credentials = filepath.Join(dir, "me") },
		`api_key_file of model "m"`: func(cfg *config.Config, dir string) {
			cfg.Models = []config.Model{{Name: "m", Provider: config.ProviderScripted, APIKeyFile: filepath.Join(dir, "key")}}
		},
		`file of secret "s"`: func(cfg *config.Config, dir string) {
			cfg.Secrets = []config.Secret{{Name: "s", File: filepath.Join(dir, "s"), Hosts: []string{"a.example:443"}}}
		},
		"": func(*config.Config, string) {}, // control
	} {
		cfg := testConfig(t)
		cfg.Workspaces = []config.Workspace{workspaceAt(t)}
		change(cfg, cfg.Workspaces[0].Path)
		g, err := build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			_ = g.close(nil)
		}
		if name == "" && err != nil || name != "" && (reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), name)) {
			t.Errorf("%q in the workspace: %v", name, err)
		}
	}
}

// TestConfigurationOfOthers: palyrad refuses a configuration file that other users can change,
// and prints the remedy.
func TestConfigurationOfOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has access lists, not modes")
	}
	for mode, wants := range map[os.FileMode]string{0o666: "chmod go-w", 0o600: ""} {
		cfg := testConfig(t)
		cfg.Source = filepath.Join(t.TempDir(), "palyra.toml")
		must.Write(t, cfg.Source, "")
		must.Do(t, os.Chmod(cfg.Source, mode))
		g, err := build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			_ = g.close(nil)
		}
		remedy := ""
		if err != nil {
			remedy = reason.Known(err, reason.Internal).NextStep()
		}
		if (err != nil) != (wants != "") || !strings.Contains(remedy, wants) {
			t.Errorf("with mode %o: %v, %s", mode, err, remedy)
		}
	}
}
