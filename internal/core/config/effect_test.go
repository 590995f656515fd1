package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// readBy says where each key has its effect: a file below internal/ and the
// text that reads it there. A key that nothing reads would be accepted and
// ignored. One that check.go refuses has its effect there.
var readBy = map[string][2]string{
	"state_dir":    {"daemon/build.go", "statedir.Take(g.cfg.StateDir)"},
	"trust_domain": {"daemon/build.go", "TrustDomain: cfg.TrustDomain"},

	"listen.api":               {"daemon/servers.go", `listen(ctx, g.cfg.Listen.API, "listen.api")`},
	"listen.allow_remote":      {"config/check.go", "!c.Listen.AllowRemote"},
	"listen.server_names":      {"daemon/servers.go", "ca.Loopback(), g.cfg.Listen.ServerNames"},
	"listen.socket_operator":   {"daemon/servers.go", "g.cfg.Listen.SocketOperator {"},
	"listen.metrics":           {"daemon/servers.go", `listen(ctx, g.cfg.Listen.Metrics, "listen.metrics")`},
	"listen.hooks":             {"daemon/servers.go", "localsocket.Shared(g.cfg.Listen.Hooks"},
	"listen.agent_uids":        {"daemon/servers.go", "g.cfg.StateDir, g.cfg.Listen.AgentUIDs..."},
	"listen.console":           {"daemon/servers.go", `listen(ctx, g.cfg.Listen.Console, "listen.console")`},
	"console.origin":           {"daemon/servers.go", "g.cfg.Console.Origin"},
	"console.idle":             {"daemon/servers.go", "Idle: g.cfg.Console.Idle"},
	"console.certificate_file": {"daemon/servers.go", "certificate.Files(c.CertificateFile, c.KeyFile,"},
	"console.key_file":         {"daemon/servers.go", "certificate.Files(c.CertificateFile, c.KeyFile,"},
	"console.own_ca":           {"daemon/servers.go", "certificate.Own("},
	"console.session":          {"daemon/servers.go", "Life: g.cfg.Console.Session"},
	"listen.agents":            {"daemon/servers.go", `listenAgents(ctx, g.cfg.Listen.Agents)`},

	"listen.max_connections":             {"daemon/servers.go", "most: g.cfg.Listen.MaxConnections,"},
	"listen.max_connections_per_address": {"daemon/servers.go", "mostOfOne: g.cfg.Listen.MaxConnectionsPerAddress"},

	"keys.store":      {"daemon/build.go", "cfg.Keys.Store == config.KeysInTPM"},
	"keys.tpm_device": {"daemon/build.go", "tpm.New(cfg.Keys.TPMDevice)"},

	"presence.aaguids":           {"daemon/members.go", "AAGUIDs: cfg.Presence.AAGUIDs"},
	"presence.attestation_roots": {"daemon/members.go", "os.ReadFile(file)"},

	"log.level":  {"daemon/command.go", "UnmarshalText([]byte(cfg.Log.Level))"},
	"log.format": {"daemon/command.go", `cfg.Log.Format == "json"`},

	"policy.dir": {"policyadmin/files.go", "dir := p.use.Settings.Policy.Dir"},
	"roles":      {"daemon/members.go", "g.authority, g.cfg.Roles)"},

	"workspaces.name":      {"daemon/build.go", "Name: w.Name"},
	"workspaces.path":      {"daemon/build.go", "Path: w.Path"},
	"workspaces.read_only": {"daemon/build.go", "ReadOnly: w.ReadOnly"},
	"workspaces.mode":      {"daemon/settings.go", "w.WorkspaceMode()"},
	"workspaces.protected": {"daemon/settings.go", "Protected: w.Protected"},

	"vault.backend":         {"vaultkey/vaultkey.go", "cfg.Vault.Backend"},
	"vault.passphrase_file": {"vaultkey/vaultkey.go", "cfg.Vault.Passphrase"},

	"dual_control":          {"daemon/build.go", "SwitchedOff: !g.cfg.DualControl"},
	"allowed_tools":         {"policyadmin/settings.go", "cfg.ToolAllowed(d.Name)"},
	"allowed_principals":    {"policyadmin/settings.go", "cfg.AllowedPrincipals"},
	"allowed_channels":      {"policyadmin/settings.go", "cfg.AllowedChannels"},
	"allow_sensitive_tools": {"policyadmin/settings.go", "AllowSensitiveTools: cfg.AllowSensitiveTools"},
	"max_calls_per_run":     {"daemon/build.go", "MaxCallsPerRun: g.cfg.MaxCallsPerRun"},
	"max_calls_per_session": {"daemon/build.go", "MaxCallsPerSession: g.cfg.MaxCallsPerSession"},
	"sessions.idle":         {"daemon/build.go", "SessionIdle: g.cfg.Sessions.Idle"},
	"execution_timeout_ms":  {"daemon/build.go", "Timeout: g.cfg.ExecutionTimeout()"},

	"stop_timeout": {"daemon/daemon.go", "time.NewTimer(g.cfg.StopTimeout)"},

	"wasm_runtime.enabled":              {"daemon/sandbox.go", "!g.cfg.WASM.Enabled"},
	"wasm_runtime.worker":               {"daemon/sandbox.go", "cfg.WASM.Worker"},
	"wasm_runtime.allow_inline_modules": {"daemon/build.go", "g.cfg.WASM.AllowInlineModules"},
	"wasm_runtime.fuel_budget":          {"daemon/sandbox.go", "uint64(c.FuelBudget)"},
	"wasm_runtime.fuel_ceiling":         {"daemon/sandbox.go", "uint64(c.FuelCeiling)"},
	"wasm_runtime.max_memory_bytes":     {"daemon/sandbox.go", "MemoryBytes: c.MaxMemoryBytes"},
	"wasm_runtime.max_table_elements":   {"daemon/sandbox.go", "TableElements: c.MaxTableElements"},
	"wasm_runtime.max_module_bytes":     {"daemon/sandbox.go", "ModuleBytes: c.MaxModuleBytes"},
	"wasm_runtime.max_output_bytes":     {"daemon/sandbox.go", "Output: int(c.MaxOutputBytes)"},
	"wasm_runtime.time_limit_ms":        {"daemon/sandbox.go", "Wall: c.TimeLimit()"},
	"wasm_runtime.max_concurrent":       {"daemon/sandbox.go", "Workers: g.cfg.WASM.MaxConcurrent"},

	"skills.enabled":           {"daemon/skills.go", "!g.cfg.Skills.Enabled"},
	"skills.allow_wildcards":   {"daemon/skills.go", "Wildcards: g.cfg.Skills.AllowWildcards"},
	"skills.max_storage_bytes": {"daemon/skills.go", "StorageBytes: g.cfg.Skills.MaxStorageBytes"},

	"process_runner.enabled":                 {"daemon/settings.go", "Enabled: p.Enabled, AllowedExecutables"},
	"process_runner.tier":                    {"sandbox/ladder/ladder_linux.go", "p.Tier"},
	"process_runner.fallback":                {"sandbox/ladder/ladder_linux.go", "p.Fallback"},
	"process_runner.required_layers":         {"daemon/settings.go", "Required: p.RequiredLayers"},
	"process_runner.allowed_executables":     {"daemon/settings.go", "AllowedExecutables: p.AllowedExecutables, AllowInterpreters"},
	"process_runner.toolchains":              {"sandbox/toolchain/toolchain.go", "Dirs: cfg.ProcessRunner.Toolchains"},
	"process_runner.allow_interpreters":      {"daemon/settings.go", "AllowInterpreters: p.AllowInterpreters"},
	"process_runner.strict_exec":             {"sandbox/ladder/ladder_linux.go", "p.StrictExec"},
	"process_runner.egress_enforcement_mode": {"daemon/settings.go", "egress.ParseMode(p.EgressEnforcementMode)"},
	"process_runner.allowed_egress_hosts":    {"daemon/egress.go", "p.AllowedEgressHosts"},
	"process_runner.allowed_dns_suffixes":    {"daemon/egress.go", "p.AllowedDNSSuffixes"},
	"process_runner.denied_egress_hosts":     {"daemon/egress.go", "p.DeniedEgressHosts"},
	"process_runner.cpu_time_limit_ms":       {"daemon/settings.go", "CPU: p.CPUTimeLimit()"},
	"process_runner.memory_limit_bytes":      {"daemon/settings.go", "Memory: p.MemoryLimitBytes"},
	"process_runner.max_output_bytes":        {"daemon/settings.go", "Output: p.MaxOutputBytes"},
	"process_runner.max_processes":           {"daemon/settings.go", "Processes: p.MaxProcesses"},
	"process_runner.max_concurrent":          {"daemon/settings.go", "cmp.Or(cfg.ProcessRunner.MaxConcurrent"},
	"process_runner.max_waiting":             {"daemon/settings.go", "cfg.ProcessRunner.MaxWaiting"},
	"process_runner.reserve_processes":       {"sandbox/ladder/ladder_linux.go", "Processes: p.ReserveProcesses"},
	"process_runner.reserve_memory_bytes":    {"sandbox/ladder/ladder_linux.go", "Memory: p.ReserveMemoryBytes"},
	"process_runner.disk_limit_bytes":        {"daemon/settings.go", "Disk: p.DiskLimitBytes"},
	"process_runner.max_files":               {"daemon/settings.go", "Files: p.MaxFiles"},
	"process_runner.tmp_limit_bytes":         {"daemon/settings.go", "Tmp: p.TmpLimitBytes"},
	"process_runner.caches":                  {"sandbox/caches/caches.go", "p.Caches"},
	"process_runner.cache_limit_bytes":       {"sandbox/caches/caches.go", "p.CacheLimitBytes"},
	"process_runner.prepared":                {"sandbox/ladder/ladder_linux.go", "p.Prepared"},
	"process_runner.uid_base":                {"sandbox/ladder/ladder_linux.go", "p.UIDBase"},
	"process_runner.uid_count":               {"sandbox/ladder/ladder_linux.go", "p.UIDCount"},

	"process_runner.egress_budget.connections":        {"daemon/egress.go", "Connections: b.Connections"},
	"process_runner.egress_budget.concurrent":         {"daemon/egress.go", "Concurrent: b.Concurrent"},
	"process_runner.egress_budget.bytes_out":          {"daemon/egress.go", "BytesOut: b.BytesOut"},
	"process_runner.egress_budget.bytes_in":           {"daemon/egress.go", "BytesIn: b.BytesIn"},
	"process_runner.egress_budget.requests":           {"daemon/egress.go", "Requests: b.Requests"},
	"process_runner.egress_budget.connection_time_ms": {"daemon/egress.go", "Time: b.ConnectionTime()"},
	"process_runner.inspect.host":                     {"daemon/egress.go", "egress.ParseRule(one.Host)"},
	"process_runner.inspect.methods":                  {"daemon/egress.go", "Methods: one.Methods"},
	"process_runner.inspect.paths":                    {"daemon/egress.go", "Paths: one.Paths"},

	"http.allowed_hosts": {"daemon/settings.go", "egress.ParseRules(cfg.HTTP.AllowedHosts)"},
	"http.denied_hosts":  {"daemon/settings.go", "egress.ParseRules(cfg.HTTP.DeniedHosts)"},
	"http.max_bytes":     {"daemon/settings.go", "MaxBytes: cfg.HTTP.MaxBytes"},
	"http.timeout_ms":    {"daemon/settings.go", "Timeout: cfg.HTTP.Timeout()"},

	"approvals.default_timeout":                {"daemon/build.go", "g.cfg.Approvals.DefaultTimeout"},
	"approvals.max_pending_per_run":            {"daemon/build.go", "g.cfg.Approvals.MaxPendingPerRun"},
	"approvals.max_pending_per_principal":      {"daemon/build.go", "g.cfg.Approvals.MaxPendingPerPrincipal"},
	"approvals.max_created_per_minute_per_run": {"daemon/build.go", "g.cfg.Approvals.MaxCreatedPerMinutePerRun"},

	"quotas.bytes_per_second":      {"usage/usage.go", "c.BytesPerSecond"},
	"quotas.burst_bytes":           {"usage/usage.go", "c.BurstBytes"},
	"quotas.day_bytes":             {"usage/usage.go", "c.DayBytes"},
	"quotas.in_flight_bytes":       {"usage/usage.go", "c.InFlightBytes"},
	"quotas.in_flight_total_bytes": {"usage/usage.go", "c.InFlightTotalBytes"},

	"results.retention":     {"daemon/store.go", "Retention: cfg.Results.Retention"},
	"storage.reserve_bytes": {"daemon/store.go", "Bytes: cfg.Storage.ReserveBytes"},

	"approvals.max_created_per_minute_per_principal": {"daemon/build.go", "g.cfg.Approvals.MaxCreatedPerMinutePerPrincipal"},
	"approvals.cooldown":                             {"daemon/build.go", "cooldown(g.cfg.Approvals.Cooldown)"},

	"runs.max_tokens":               {"daemon/build.go", "Tokens: g.cfg.Runs.MaxTokens"},
	"runs.max_duration":             {"daemon/build.go", "WallClock: g.cfg.Runs.MaxDuration"},
	"runs.max_active_per_principal": {"daemon/build.go", "g.cfg.Runs.MaxActivePerPrincipal"},
	"runs.parallel_calls":           {"daemon/build.go", "g.cfg.Runs.ParallelCalls"},
	"runs.abandoned_after":          {"daemon/build.go", "g.cfg.Runs.AbandonedAfter"},

	"models.name":              {"model/providers/providers.go", "out.ByName[m.Name]"},
	"models.provider":          {"model/providers/providers.go", "m.Provider == config.ProviderScripted"},
	"models.model":             {"model/providers/providers.go", "model.Endpoint{Model: m.Model"},
	"models.base_url":          {"model/providers/providers.go", "BaseURL: m.BaseURL"},
	"models.api_key_file":      {"model/providers/providers.go", "m.APIKey()"},
	"models.api_key_secret":    {"daemon/secrets.go", "vault.ParseRef(m.APIKeySecret)"},
	"models.max_output_tokens": {"model/providers/providers.go", "MaxOutputTokens: m.MaxOutputTokens"},
	"models.idle_timeout":      {"model/providers/providers.go", "IdleTimeout: m.IdleTimeout"},
	"models.script":            {"model/providers/providers.go", "scripted.Config{File: m.Script}"},

	"secrets.name":   {"daemon/secrets.go", "Name: s.Name"},
	"secrets.file":   {"daemon/secrets.go", "s.Value()"},
	"secrets.hosts":  {"daemon/secrets.go", "egress.ParseRules(s.Hosts)"},
	"secrets.header": {"daemon/secrets.go", "Header: s.Header"},
	"secrets.env":    {"daemon/secrets.go", "Env: s.Env"},

	"mcp_clients.name":       {"daemon/settings.go", "limits[c.Name]"},
	"mcp_clients.call_limit": {"daemon/settings.go", "= c.CallLimit"},

	"rate_limits.read.per_second":      {"daemon/settings.go", "rpc.LimitRead: cfg.RateLimits.Read"},
	"rate_limits.read.burst":           {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.mutate.per_second":    {"daemon/settings.go", "rpc.LimitMutate: cfg.RateLimits.Mutate"},
	"rate_limits.mutate.burst":         {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.decide.per_second":    {"daemon/settings.go", "rpc.LimitDecide: cfg.RateLimits.Decide"},
	"rate_limits.decide.burst":         {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.tool_call.per_second": {"daemon/settings.go", "rpc.LimitToolCall: cfg.RateLimits.ToolCall"},
	"rate_limits.tool_call.burst":      {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.run.per_second":       {"daemon/settings.go", "rpc.LimitRun: cfg.RateLimits.Run"},
	"rate_limits.run.burst":            {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.secret.per_second":    {"daemon/settings.go", "rpc.LimitSecret: cfg.RateLimits.Secret"},
	"rate_limits.secret.burst":         {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.pairing.per_second":   {"daemon/settings.go", "rpc.LimitPairing: cfg.RateLimits.Pairing"},
	"rate_limits.pairing.burst":        {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.login.per_second":     {"daemon/settings.go", "rpc.LimitLogin: cfg.RateLimits.Login"},
	"rate_limits.login.burst":          {"daemon/settings.go", "Burst: l.Burst"},
	"rate_limits.global_factor":        {"daemon/settings.go", "factor := cfg.RateLimits.GlobalFactor"},

	"oidc.issuer":                     {"daemon/settings.go", "Issuer: o.Issuer"},
	"oidc.client_id":                  {"daemon/settings.go", "ClientID: o.ClientID"},
	"oidc.client_secret_file":         {"daemon/settings.go", "o.ClientSecret"},
	"oidc.scopes":                     {"daemon/settings.go", "Scopes: o.Scopes"},
	"oidc.username_claim":             {"daemon/settings.go", "UsernameClaim: o.UsernameClaim"},
	"oidc.username_domain":            {"daemon/settings.go", "UsernameDomain: o.UsernameDomain"},
	"oidc.groups_claim":               {"daemon/settings.go", "GroupsClaim: o.GroupsClaim"},
	"oidc.algorithms":                 {"daemon/settings.go", "Algorithms: o.Algorithms"},
	"oidc.device_flow":                {"daemon/settings.go", "DeviceFlow: o.DeviceFlow"},
	"oidc.max_age":                    {"daemon/settings.go", "MaxAge: o.MaxAge"},
	"oidc.session":                    {"daemon/settings.go", "Session: o.Session"},
	"oauth_issuers.issuer":            {"daemon/settings.go", "Name: o.Issuer"},
	"oauth_issuers.audience":          {"daemon/settings.go", "Audience: o.Audience"},
	"oauth_issuers.algorithms":        {"daemon/settings.go", "Algorithms: o.Algorithms"},
	"oauth_issuers.jwks_uri":          {"daemon/settings.go", "JWKS: o.JWKSURI"},
	"oauth_issuers.allowed_hosts":     {"daemon/settings.go", "egress.ParseRules(o.AllowedHosts)"},
	"oauth_issuers.subject_claim":     {"daemon/settings.go", "SubjectClaim: o.SubjectClaim"},
	"oauth_issuers.groups_claim":      {"daemon/settings.go", "GroupsClaim: o.GroupsClaim"},
	"oauth_issuers.any_type":          {"daemon/settings.go", "TypedTokens: !o.AnyType"},
	"oauth_issuers.scopes_of_members": {"daemon/settings.go", "ScopesInToken: !o.ScopesOfMembers"},
	"oauth_issuers.members.subject":   {"daemon/settings.go", "Subject: m.Subject"},
	"oauth_issuers.members.group":     {"daemon/settings.go", "Group: m.Group"},
	"oauth_issuers.members.acts_as":   {"daemon/settings.go", "access.ParsePrincipal(m.ActsAs)"},
	"oauth_issuers.members.scopes":    {"daemon/settings.go", "range m.Scopes"},

	"notify.name":             {"notify/targets/targets.go", "Name: n.Name"},
	"notify.type":             {"notify/targets/targets.go", "Type: n.Type"},
	"notify.events":           {"notify/targets/targets.go", "range n.Events"},
	"notify.min_severity":     {"notify/targets/targets.go", "MinSeverity: n.MinSeverity"},
	"notify.include":          {"notify/targets/targets.go", "notify.Include(n.Include)"},
	"notify.url":              {"notify/targets/targets.go", "URL: n.URL"},
	"notify.secrets":          {"notify/targets/targets.go", "Secrets: n.Secrets"},
	"notify.allowed_hosts":    {"notify/targets/targets.go", "egress.ParseRules(n.AllowedHosts)"},
	"notify.smtp":             {"notify/targets/targets.go", "Server: n.SMTP"},
	"notify.tls":              {"notify/targets/targets.go", "TLS: n.TLS"},
	"notify.from":             {"notify/targets/targets.go", "From: n.From"},
	"notify.to":               {"notify/targets/targets.go", "To: n.To"},
	"notify.username":         {"notify/targets/targets.go", "Username: n.Username"},
	"notify.password_secret":  {"notify/targets/targets.go", "Secret: n.PasswordSecret"},
	"notify.channel":          {"notify/targets/targets.go", "Channel: n.Channel"},
	"notify.app_token_secret": {"notify/targets/targets.go", "AppToken: n.AppTokenSecret"},
	"notify.bot_token_secret": {"notify/targets/targets.go", "BotToken: n.BotTokenSecret"},
	"notify.decide":           {"notify/targets/targets.go", "n.Decide"},

	"evaluators.caller":   {"daemon/settings.go", "access.ParsePrincipal(e.Caller)"},
	"evaluators.subjects": {"daemon/settings.go", "range e.Subjects"},

	"oidc.allow_owner":  {"config/oidc.go", "!c.OIDC.AllowOwner"},
	"oidc.groups.group": {"daemon/settings.go", "Group: m.Group"},
	"oidc.groups.roles": {"daemon/settings.go", "range m.Roles"},

	// The command's own.
	"client.address":     {"cli/client/settings.go", "c.Client.Address"},
	"client.credentials": {"cli/client/settings.go", "c.Client.Credentials"},
	"client.notify":      {"cli/client/settings.go", "c.Client.Notify"},
}

// unread lists the keys that the table does not know, knows and nobody reads,
// or knows although they are gone.
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
		text := must.Get(os.ReadFile(filepath.Join("../..", filepath.FromSlash(file))))(t)
		return string(text)
	}
	keys := documentedKeys("", reflect.TypeFor[Config]())
	for _, problem := range unread(keys, source) {
		t.Error(problem)
	}
	// Controls: a key that is new, and one whose reader is gone, are found.
	if got := unread(append(keys, "process_runner.new"), source); len(got) != 1 {
		t.Errorf("a key without a reader gives %q", got)
	}
	if got := unread(keys, func(file string) string {
		return strings.ReplaceAll(source(file), "p.MaxProcesses", "")
	}); len(got) != 1 || !strings.Contains(got[0], "max_processes") {
		t.Errorf("a key whose reader was removed gives %q", got)
	}
}
