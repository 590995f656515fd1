package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// readBy maps each key to a file below internal/ and the text that reads the key there. A key
// without a reader would be accepted and ignored. A key that check.go refuses has its effect
// there.
var readBy = map[string][2]string{
	"state_dir":    {"gateway/build.go", "takeState(g.cfg.StateDir)"},
	"trust_domain": {"gateway/build.go", "TrustDomain: cfg.TrustDomain"},

	"listen.api":               {"gateway/servers.go", `listen(ctx, g.cfg.Listen.API, "listen.api")`},
	"listen.allow_remote":      {"core/config/check.go", "!c.Listen.AllowRemote"},
	"listen.server_names":      {"gateway/servers.go", "ca.Loopback(), g.cfg.Listen.ServerNames"},
	"listen.socket_operator":   {"gateway/servers.go", "g.cfg.Listen.SocketOperator {"},
	"listen.metrics":           {"gateway/servers.go", `listen(ctx, g.cfg.Listen.Metrics, "listen.metrics")`},
	"listen.hooks":             {"gateway/servers.go", "localsocket.Shared(g.cfg.Listen.Hooks"},
	"listen.agent_uids":        {"gateway/servers.go", "g.cfg.StateDir, g.cfg.Listen.AgentUIDs..."},
	"listen.console":           {"gateway/servers.go", `listen(ctx, g.cfg.Listen.Console, "listen.console")`},
	"console.origin":           {"gateway/servers.go", "g.cfg.Console.Origin"},
	"console.idle":             {"gateway/servers.go", "Idle: g.cfg.Console.Idle"},
	"console.certificate_file": {"gateway/servers.go", "certificate.Files(c.CertificateFile, c.KeyFile,"},
	"console.key_file":         {"gateway/servers.go", "certificate.Files(c.CertificateFile, c.KeyFile,"},
	"console.own_ca":           {"gateway/servers.go", "certificate.Own("},
	"console.session":          {"gateway/servers.go", "Life: g.cfg.Console.Session"},
	"listen.agents":            {"gateway/servers.go", `listenAgents(ctx, g.cfg.Listen.Agents)`},

	"listen.max_connections":             {"gateway/servers.go", "most: g.cfg.Listen.MaxConnections,"},
	"listen.max_connections_per_address": {"gateway/servers.go", "mostOfOne: g.cfg.Listen.MaxConnectionsPerAddress"},

	"keys.store":      {"gateway/build.go", "cfg.Keys.Store == config.KeysInTPM"},
	"keys.tpm_device": {"gateway/build.go", "tpm.New(cfg.Keys.TPMDevice)"},

	"presence.aaguids":           {"gateway/members.go", "AAGUIDs: cfg.Presence.AAGUIDs"},
	"presence.attestation_roots": {"gateway/members.go", "os.ReadFile(file)"},

	"log.level":  {"gateway/command.go", "UnmarshalText([]byte(cfg.Log.Level))"},
	"log.format": {"gateway/command.go", `cfg.Log.Format == "json"`},

	"policy.dir": {"call/policyadmin/loader.go", "dir := l.settings.Policy.Dir"},
	"roles":      {"gateway/members.go", "g.authority, g.cfg.Roles, guard(g))"},

	"workspaces.name":      {"gateway/build.go", "Name: w.Name"},
	"workspaces.path":      {"gateway/build.go", "Path: w.Path"},
	"workspaces.read_only": {"gateway/build.go", "ReadOnly: w.ReadOnly"},
	"workspaces.mode":      {"gateway/settings.go", "w.WorkspaceMode()"},
	"workspaces.protected": {"gateway/settings.go", "Protected: w.Protected"},

	"vault.backend":         {"ops/vaultkey/vaultkey.go", "cfg.Vault.Backend"},
	"vault.passphrase_file": {"ops/vaultkey/vaultkey.go", "cfg.Vault.Passphrase"},

	"dual_control":          {"gateway/build.go", "SwitchedOff: !g.cfg.DualControl"},
	"allowed_tools":         {"call/policyadmin/settings.go", "cfg.ToolAllowed(d.Name)"},
	"allowed_principals":    {"call/policyadmin/settings.go", "cfg.AllowedPrincipals"},
	"allowed_channels":      {"call/policyadmin/settings.go", "cfg.AllowedChannels"},
	"allow_sensitive_tools": {"call/policyadmin/settings.go", "AllowSensitiveTools: cfg.AllowSensitiveTools"},
	"max_calls_per_run":     {"gateway/build.go", "MaxCallsPerRun: g.cfg.MaxCallsPerRun"},
	"max_calls_per_session": {"gateway/build.go", "MaxCallsPerSession: g.cfg.MaxCallsPerSession"},
	"sessions.idle":         {"gateway/build.go", "SessionIdle: g.cfg.Sessions.Idle"},
	"execution_timeout_ms":  {"gateway/build.go", "Timeout: g.cfg.ExecutionTimeout()"},

	"stop_timeout": {"gateway/daemon.go", "time.NewTimer(g.cfg.StopTimeout)"},

	"wasm_runtime.enabled":              {"gateway/sandbox.go", "!g.cfg.WASM.Enabled"},
	"wasm_runtime.worker":               {"gateway/sandbox.go", "cfg.WASM.Worker"},
	"wasm_runtime.allow_inline_modules": {"gateway/build.go", "g.cfg.WASM.AllowInlineModules"},
	"wasm_runtime.fuel_budget":          {"gateway/sandbox.go", "uint64(c.FuelBudget)"},
	"wasm_runtime.fuel_ceiling":         {"gateway/sandbox.go", "uint64(c.FuelCeiling)"},
	"wasm_runtime.max_memory_bytes":     {"gateway/sandbox.go", "MemoryBytes: c.MaxMemoryBytes"},
	"wasm_runtime.max_table_elements":   {"gateway/sandbox.go", "TableElements: c.MaxTableElements"},
	"wasm_runtime.max_module_bytes":     {"gateway/sandbox.go", "ModuleBytes: c.MaxModuleBytes"},
	"wasm_runtime.max_output_bytes":     {"gateway/sandbox.go", "Output: int(c.MaxOutputBytes)"},
	"wasm_runtime.time_limit_ms":        {"gateway/sandbox.go", "Wall: c.TimeLimit()"},
	"wasm_runtime.max_concurrent":       {"gateway/sandbox.go", "Workers: g.cfg.WASM.MaxConcurrent"},

	"skills.enabled":           {"gateway/skills.go", "!g.cfg.Skills.Enabled"},
	"skills.allow_wildcards":   {"gateway/skills.go", "Wildcards: g.cfg.Skills.AllowWildcards"},
	"skills.max_storage_bytes": {"gateway/skills.go", "StorageBytes: g.cfg.Skills.MaxStorageBytes"},

	"process_runner.enabled":                 {"gateway/settings.go", "Enabled: p.Enabled, AllowedExecutables"},
	"process_runner.tier":                    {"exec/sandbox/ladder/ladder_linux.go", "p.Tier"},
	"process_runner.fallback":                {"exec/sandbox/ladder/ladder_linux.go", "p.Fallback"},
	"process_runner.required_layers":         {"gateway/settings.go", "Required: p.RequiredLayers"},
	"process_runner.allowed_executables":     {"gateway/settings.go", "AllowedExecutables: p.AllowedExecutables, AllowInterpreters"},
	"process_runner.toolchains":              {"exec/sandbox/toolchain/toolchain.go", "Dirs: cfg.ProcessRunner.Toolchains"},
	"process_runner.allow_interpreters":      {"gateway/settings.go", "AllowInterpreters: p.AllowInterpreters"},
	"process_runner.strict_exec":             {"exec/sandbox/ladder/ladder_linux.go", "p.StrictExec"},
	"process_runner.egress_enforcement_mode": {"gateway/settings.go", "egress.ParseMode(p.EgressEnforcementMode)"},
	"process_runner.allowed_egress_hosts":    {"gateway/egress.go", "p.AllowedEgressHosts"},
	"process_runner.allowed_dns_suffixes":    {"gateway/egress.go", "p.AllowedDNSSuffixes"},
	"process_runner.denied_egress_hosts":     {"gateway/egress.go", "p.DeniedEgressHosts"},
	"process_runner.cpu_time_limit_ms":       {"gateway/settings.go", "CPU: p.CPUTimeLimit()"},
	"process_runner.memory_limit_bytes":      {"gateway/settings.go", "Memory: p.MemoryLimitBytes"},
	"process_runner.max_output_bytes":        {"gateway/settings.go", "Output: p.MaxOutputBytes"},
	"process_runner.max_processes":           {"gateway/settings.go", "Processes: p.MaxProcesses"},
	"process_runner.max_concurrent":          {"gateway/settings.go", "cmp.Or(cfg.ProcessRunner.MaxConcurrent"},
	"process_runner.max_waiting":             {"gateway/settings.go", "cfg.ProcessRunner.MaxWaiting"},
	"process_runner.reserve_processes":       {"exec/sandbox/ladder/ladder_linux.go", "Processes: p.ReserveProcesses"},
	"process_runner.reserve_memory_bytes":    {"exec/sandbox/ladder/ladder_linux.go", "Memory: p.ReserveMemoryBytes"},
	"process_runner.disk_limit_bytes":        {"gateway/settings.go", "Disk: p.DiskLimitBytes"},
	"process_runner.max_files":               {"gateway/settings.go", "Files: p.MaxFiles"},
	"process_runner.tmp_limit_bytes":         {"gateway/settings.go", "Tmp: p.TmpLimitBytes"},
	"process_runner.caches":                  {"exec/sandbox/caches/caches.go", "p.Caches"},
	"process_runner.cache_limit_bytes":       {"exec/sandbox/caches/caches.go", "p.CacheLimitBytes"},
	"process_runner.prepared":                {"exec/sandbox/ladder/ladder_linux.go", "p.Prepared"},
	"process_runner.uid_base":                {"exec/sandbox/ladder/ladder_linux.go", "p.UIDBase"},
	"process_runner.uid_count":               {"exec/sandbox/ladder/ladder_linux.go", "p.UIDCount"},

	"process_runner.egress_budget.connections":        {"gateway/egress.go", "Connections: b.Connections"},
	"process_runner.egress_budget.concurrent":         {"gateway/egress.go", "Concurrent: b.Concurrent"},
	"process_runner.egress_budget.bytes_out":          {"gateway/egress.go", "BytesOut: b.BytesOut"},
	"process_runner.egress_budget.bytes_in":           {"gateway/egress.go", "BytesIn: b.BytesIn"},
	"process_runner.egress_budget.requests":           {"gateway/egress.go", "Requests: b.Requests"},
	"process_runner.egress_budget.connection_time_ms": {"gateway/egress.go", "Time: b.ConnectionTime()"},
	"process_runner.inspect.host":                     {"gateway/egress.go", "egress.ParseRule(one.Host)"},
	"process_runner.inspect.methods":                  {"gateway/egress.go", "Methods: one.Methods"},
	"process_runner.inspect.paths":                    {"gateway/egress.go", "Paths: one.Paths"},

	"http.allowed_hosts": {"gateway/settings.go", "egress.ParseRules(cfg.HTTP.AllowedHosts)"},
	"http.denied_hosts":  {"gateway/settings.go", "egress.ParseRules(cfg.HTTP.DeniedHosts)"},
	"http.max_bytes":     {"gateway/settings.go", "MaxBytes: cfg.HTTP.MaxBytes"},
	"http.timeout_ms":    {"gateway/settings.go", "Timeout: cfg.HTTP.Timeout()"},

	"approvals.default_timeout":                {"gateway/build.go", "g.cfg.Approvals.DefaultTimeout"},
	"approvals.max_pending_per_run":            {"gateway/build.go", "g.cfg.Approvals.MaxPendingPerRun"},
	"approvals.max_pending_per_principal":      {"gateway/build.go", "g.cfg.Approvals.MaxPendingPerPrincipal"},
	"approvals.max_created_per_minute_per_run": {"gateway/build.go", "g.cfg.Approvals.MaxCreatedPerMinutePerRun"},

	"quotas.bytes_per_second":      {"ops/quota/usage.go", "c.BytesPerSecond"},
	"quotas.burst_bytes":           {"ops/quota/usage.go", "c.BurstBytes"},
	"quotas.day_bytes":             {"ops/quota/usage.go", "c.DayBytes"},
	"quotas.in_flight_bytes":       {"ops/quota/usage.go", "c.InFlightBytes"},
	"quotas.in_flight_total_bytes": {"ops/quota/usage.go", "c.InFlightTotalBytes"},

	"results.retention":     {"gateway/store.go", "Retention: cfg.Results.Retention"},
	"storage.reserve_bytes": {"gateway/store.go", "Bytes: cfg.Storage.ReserveBytes"},

	"approvals.max_created_per_minute_per_principal": {"gateway/build.go", "g.cfg.Approvals.MaxCreatedPerMinutePerPrincipal"},
	"approvals.cooldown":                             {"gateway/build.go", "cooldown(g.cfg.Approvals.Cooldown)"},

	"runs.max_tokens":               {"gateway/build.go", "Tokens: g.cfg.Runs.MaxTokens"},
	"runs.max_duration":             {"gateway/build.go", "WallClock: g.cfg.Runs.MaxDuration"},
	"runs.max_active_per_principal": {"gateway/build.go", "g.cfg.Runs.MaxActivePerPrincipal"},
	"runs.parallel_calls":           {"gateway/build.go", "g.cfg.Runs.ParallelCalls"},
	"runs.abandoned_after":          {"gateway/build.go", "g.cfg.Runs.AbandonedAfter"},

	"models.name":              {"run/model/providers/providers.go", "out.ByName[m.Name]"},
	"models.provider":          {"run/model/providers/providers.go", "m.Provider == config.ProviderScripted"},
	"models.model":             {"run/model/providers/providers.go", "model.Endpoint{Model: m.Model"},
	"models.base_url":          {"run/model/providers/providers.go", "BaseURL: m.BaseURL"},
	"models.api_key_file":      {"run/model/providers/providers.go", "m.APIKey()"},
	"models.api_key_secret":    {"gateway/secrets.go", "vault.ParseRef(m.APIKeySecret)"},
	"models.max_output_tokens": {"run/model/providers/providers.go", "MaxOutputTokens: m.MaxOutputTokens"},
	"models.idle_timeout":      {"run/model/providers/providers.go", "IdleTimeout: m.IdleTimeout"},
	"models.script":            {"run/model/providers/providers.go", "scripted.Config{File: m.Script}"},

	"secrets.name":   {"gateway/secrets.go", "Name: s.Name"},
	"secrets.file":   {"gateway/secrets.go", "s.Value()"},
	"secrets.hosts":  {"gateway/secrets.go", "egress.ParseRules(s.Hosts)"},
	"secrets.header": {"gateway/secrets.go", "Header: s.Header"},
	"secrets.env":    {"gateway/secrets.go", "Env: s.Env"},

	"mcp_clients.name":       {"gateway/settings.go", "limits[c.Name]"},
	"mcp_clients.call_limit": {"gateway/settings.go", "= c.CallLimit"},

	"rate_limits.read.per_second":      {"gateway/settings.go", "api.LimitRead: cfg.RateLimits.Read"},
	"rate_limits.read.burst":           {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.mutate.per_second":    {"gateway/settings.go", "api.LimitMutate: cfg.RateLimits.Mutate"},
	"rate_limits.mutate.burst":         {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.decide.per_second":    {"gateway/settings.go", "api.LimitDecide: cfg.RateLimits.Decide"},
	"rate_limits.decide.burst":         {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.tool_call.per_second": {"gateway/settings.go", "api.LimitToolCall: cfg.RateLimits.ToolCall"},
	"rate_limits.tool_call.burst":      {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.run.per_second":       {"gateway/settings.go", "api.LimitRun: cfg.RateLimits.Run"},
	"rate_limits.run.burst":            {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.secret.per_second":    {"gateway/settings.go", "api.LimitSecret: cfg.RateLimits.Secret"},
	"rate_limits.secret.burst":         {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.pairing.per_second":   {"gateway/settings.go", "api.LimitPairing: cfg.RateLimits.Pairing"},
	"rate_limits.pairing.burst":        {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.login.per_second":     {"gateway/settings.go", "api.LimitLogin: cfg.RateLimits.Login"},
	"rate_limits.login.burst":          {"gateway/settings.go", "Burst: l.Burst"},
	"rate_limits.global_factor":        {"gateway/settings.go", "factor := cfg.RateLimits.GlobalFactor"},

	"oidc.issuer":                     {"gateway/settings.go", "Issuer: o.Issuer"},
	"oidc.client_id":                  {"gateway/settings.go", "ClientID: o.ClientID"},
	"oidc.client_secret_file":         {"gateway/settings.go", "o.ClientSecret"},
	"oidc.scopes":                     {"gateway/settings.go", "Scopes: o.Scopes"},
	"oidc.username_claim":             {"gateway/settings.go", "UsernameClaim: o.UsernameClaim"},
	"oidc.username_domain":            {"gateway/settings.go", "UsernameDomain: o.UsernameDomain"},
	"oidc.groups_claim":               {"gateway/settings.go", "GroupsClaim: o.GroupsClaim"},
	"oidc.algorithms":                 {"gateway/settings.go", "Algorithms: o.Algorithms"},
	"oidc.device_flow":                {"gateway/settings.go", "DeviceFlow: o.DeviceFlow"},
	"oidc.max_age":                    {"gateway/settings.go", "MaxAge: o.MaxAge"},
	"oidc.session":                    {"gateway/settings.go", "Session: o.Session"},
	"oauth_issuers.issuer":            {"gateway/settings.go", "Name: o.Issuer"},
	"oauth_issuers.audience":          {"gateway/settings.go", "Audience: o.Audience"},
	"oauth_issuers.algorithms":        {"gateway/settings.go", "Algorithms: o.Algorithms"},
	"oauth_issuers.jwks_uri":          {"gateway/settings.go", "JWKS: o.JWKSURI"},
	"oauth_issuers.allowed_hosts":     {"gateway/settings.go", "egress.ParseRules(o.AllowedHosts)"},
	"oauth_issuers.subject_claim":     {"gateway/settings.go", "SubjectClaim: o.SubjectClaim"},
	"oauth_issuers.groups_claim":      {"gateway/settings.go", "GroupsClaim: o.GroupsClaim"},
	"oauth_issuers.any_type":          {"gateway/settings.go", "TypedTokens: !o.AnyType"},
	"oauth_issuers.scopes_of_members": {"gateway/settings.go", "ScopesInToken: !o.ScopesOfMembers"},
	"oauth_issuers.members.subject":   {"gateway/settings.go", "Subject: m.Subject"},
	"oauth_issuers.members.group":     {"gateway/settings.go", "Group: m.Group"},
	"oauth_issuers.members.acts_as":   {"gateway/settings.go", "access.ParsePrincipal(m.ActsAs)"},
	"oauth_issuers.members.scopes":    {"gateway/settings.go", "range m.Scopes"},

	"notify.name":             {"surface/notify/targets/targets.go", "Name: n.Name"},
	"notify.type":             {"surface/notify/targets/targets.go", "Type: n.Type"},
	"notify.events":           {"surface/notify/targets/targets.go", "range n.Events"},
	"notify.min_severity":     {"surface/notify/targets/targets.go", "MinSeverity: n.MinSeverity"},
	"notify.include":          {"surface/notify/targets/targets.go", "notify.Include(n.Include)"},
	"notify.url":              {"surface/notify/targets/targets.go", "URL: n.URL"},
	"notify.secrets":          {"surface/notify/targets/targets.go", "Secrets: n.Secrets"},
	"notify.allowed_hosts":    {"surface/notify/targets/targets.go", "egress.ParseRules(n.AllowedHosts)"},
	"notify.smtp":             {"surface/notify/targets/targets.go", "Server: n.SMTP"},
	"notify.tls":              {"surface/notify/targets/targets.go", "TLS: n.TLS"},
	"notify.from":             {"surface/notify/targets/targets.go", "From: n.From"},
	"notify.to":               {"surface/notify/targets/targets.go", "To: n.To"},
	"notify.username":         {"surface/notify/targets/targets.go", "Username: n.Username"},
	"notify.password_secret":  {"surface/notify/targets/targets.go", "Secret: n.PasswordSecret"},
	"notify.channel":          {"surface/notify/targets/targets.go", "Channel: n.Channel"},
	"notify.app_token_secret": {"surface/notify/targets/targets.go", "AppToken: n.AppTokenSecret"},
	"notify.bot_token_secret": {"surface/notify/targets/targets.go", "BotToken: n.BotTokenSecret"},
	"notify.decide":           {"surface/notify/targets/targets.go", "n.Decide"},

	"evaluators.caller":   {"gateway/settings.go", "access.ParsePrincipal(e.Caller)"},
	"evaluators.subjects": {"gateway/settings.go", "range e.Subjects"},

	"oidc.allow_owner":  {"core/config/oidc.go", "!c.OIDC.AllowOwner"},
	"oidc.groups.group": {"gateway/settings.go", "Group: m.Group"},
	"oidc.groups.roles": {"gateway/settings.go", "range m.Roles"},

	// These are the command's own keys.
	"client.address":     {"cli/client/settings.go", "c.Client.Address"},
	"client.credentials": {"cli/client/settings.go", "c.Client.Credentials"},
	"client.notify":      {"cli/client/settings.go", "c.Client.Notify"},
}

// unread lists the keys that the table does not contain, that have no reader, or that no longer
// exist.
func unread(keys []string, source func(file string) string) []string {
	var list []string
	known := make(map[string]bool)
	for _, name := range keys {
		known[name] = true
		at, ok := readBy[name]
		if !ok {
			list = append(list, name+" has no place where it is read")
		} else if !strings.Contains(source(at[0]), at[1]) {
			list = append(list, name+" is not read in "+at[0])
		}
	}
	for name := range readBy {
		if !known[name] {
			list = append(list, name+" is no key")
		}
	}
	return list
}

func TestEveryKeyHasAnEffect(t *testing.T) {
	t.Parallel()
	source := func(file string) string {
		text := must.Get(os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file))))(t)
		return string(text)
	}
	keys := documentedKeys("", reflect.TypeFor[Config]())
	for _, problem := range unread(keys, source) {
		t.Error(problem)
	}
	// Controls: a new key, and a key whose reader is missing, are found.
	if got := unread(append(keys, "process_runner.new"), source); len(got) != 1 {
		t.Errorf("a key without a reader gives %q", got)
	}
	if got := unread(keys, func(file string) string {
		return strings.ReplaceAll(source(file), "p.MaxProcesses", "")
	}); len(got) != 1 || !strings.Contains(got[0], "max_processes") {
		t.Errorf("a key whose reader was removed gives %q", got)
	}
}

// documentedKeys lists all keys of a type: every leaf of the struct, including leaves of list
// elements.
func documentedKeys(prefix string, t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Tag.Get("toml") == "-" {
			continue
		}
		name := prefix + field.Tag.Get("toml")
		switch {
		case field.Type.Kind() == reflect.Struct:
			names = append(names, documentedKeys(name+".", field.Type)...)
		case isTableList(field.Type):
			names = append(names, documentedKeys(name+".", field.Type.Elem())...)
		default:
			names = append(names, name)
		}
	}
	return names
}
