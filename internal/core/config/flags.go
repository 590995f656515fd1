package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Flag is the flag of palyrad for a key.
type Flag struct {
	Key string
	// Name is the name without leading hyphens.
	Name string
	// Group is the heading of the flag in a help text.
	Group string
	// Value is the placeholder of the value in a help text: "HOST:PORT".
	Value string
	// Usage describes the key and its default.
	Usage string
}

// Flags lists the keys of palyrad that a flag can set, in the order of
// docs/reference/configuration.md. Lists of tables can be set only in the file, and the keys of
// client.* belong to palyra.
func Flags() []Flag {
	var list []Flag
	for _, k := range keysOf(Default()) {
		if isTableList(k.value.Type()) || strings.HasPrefix(k.name, "client.") {
			continue
		}
		list = append(list, Flag{Key: k.name, Name: FlagName(k.name), Group: groupOf(k.name), Value: valueName(k), Usage: usageOf(k)})
	}
	return list
}

// groups are the headings by key prefix; the first matching prefix counts.
var groups = []struct{ prefix, heading string }{
	{"listen.", "Listening"},
	{"keys.", "Keys"},
	{"vault.", "Keys"},
	{"log.", "Log"},
	{"policy.", "Policies"},
	{"process_runner.egress_budget.", "Network budgets of one program"},
	{"process_runner.egress", "What programs reach"},
	{"process_runner.allowed_egress", "What programs reach"},
	{"process_runner.allowed_dns", "What programs reach"},
	{"process_runner.denied_egress", "What programs reach"},
	{"process_runner.", "Programs and their sandbox"},
	{"wasm_runtime.", "WebAssembly guests"},
	{"skills.", "Skills"},
	{"http.", "The tool http.fetch"},
	{"approvals.", "Questions to people"},
	{"presence.", "Questions to people"},
	{"runs.", "Runs"},
	{"sessions.", "Sessions"},
	{"oidc.", "Logins"},
	{"rate_limits.", "Rate limits"},
	{"quotas.", "Quotas of one principal"},
	{"storage.", "Disk"},
	{"results.", "Disk"},
	{"", "General"},
}

func groupOf(key string) string {
	for _, g := range groups {
		if strings.HasPrefix(key, g.prefix) {
			return g.heading
		}
	}
	return ""
}

// usageOf returns the help of a key with its default, unless the default depends on the
// machine.
func usageOf(k key) string {
	if k.value.IsZero() || k.value.Kind() == reflect.Slice && k.value.Len() == 0 {
		return flagHelp[k.name].what
	}
	return fmt.Sprintf("%s (default %s)", flagHelp[k.name].what, flagText(k.value))
}

// flagText formats a value so that setText can parse it.
func flagText(v reflect.Value) string {
	if v.Type() == durationType {
		return shortDuration(time.Duration(v.Int()))
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	parts := make([]string, v.Len())
	for i := range parts {
		parts[i] = flagText(v.Index(i))
	}
	return strings.Join(parts, ",")
}

// valueName returns the placeholder for the value of a key: its own name, or the name of its type.
func valueName(k key) string {
	if own := flagHelp[k.name].value; own != "" {
		return own
	}
	if k.value.Type() == durationType {
		return "DURATION"
	}
	switch k.value.Kind() {
	case reflect.Pointer:
		return valueName(key{value: reflect.New(k.value.Type().Elem()).Elem()}) + "|" + unset
	case reflect.Bool:
		return "true|false"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "N"
	case reflect.Slice:
		return "LIST"
	}
	return "TEXT"
}

// flagHelp holds the one-line help of each flag; docs/reference/configuration.md has the
// details. A value has a placeholder here if its type is not descriptive.
var flagHelp = map[string]struct{ value, what string }{
	"state_dir":                                       {"DIR", "where palyrad keeps its keys, journal and blobs"},
	"trust_domain":                                    {"NAME", "authority of the SPIFFE ids that are issued; fixed once the CA exists (default: a name that no other gateway has)"},
	"roles":                                           {"LIST", "additional roles, for policies"},
	"allowed_tools":                                   {"LIST", "tools that exist at all: names, and prefixes that end in *"},
	"allowed_principals":                              {"LIST", "users and agents that may act at all: user:NAME, agent:NAME, or * for every member"},
	"allowed_channels":                                {"LIST", "messaging channels that calls may come from (default: channels admitted by palyra access allow)"},
	"dual_control":                                    {"", "requires a second owner or admin for changes of members and policies, if two exist"},
	"allow_sensitive_tools":                           {"", "allows every sensitive tool without approval"},
	"max_calls_per_run":                               {"", "calls that a run may propose"},
	"max_calls_per_session":                           {"", "calls that a session may propose before a person must allow more"},
	"execution_timeout_ms":                            {"MS", "wall clock limit of one call in milliseconds"},
	"stop_timeout":                                    {"", "how long running calls may continue after a request to stop"},
	"listen.api":                                      {"HOST:PORT", "where the API listens, with TLS"},
	"listen.allow_remote":                             {"", "permits an API address that other machines can reach"},
	"listen.agent_uids":                               {"LIST", "numeric ids of users whose agents may use listen.agents and listen.hooks, in addition to the owner of the state directory"},
	"listen.hooks":                                    {"PATH", "Unix socket for the hooks of agents of listen.agent_uids"},
	"listen.server_names":                             {"LIST", "further DNS names and addresses in the server certificate"},
	"listen.metrics":                                  {"HOST:PORT", "address of metrics over plain HTTP, on loopback; empty to disable"},
	"listen.max_connections":                          {"", "open connections to the API"},
	"listen.agents":                                   {"HOST:PORT", "address of MCP and hooks for agents on this host, over plain HTTP on loopback; empty to disable"},
	"listen.console":                                  {"HOST:PORT", "address of the web console, on loopback; empty to disable"},
	"console.origin":                                  {"URL", "origin of the console for browsers (default: a name on this machine that is unique to the gateway)"},
	"console.idle":                                    {"", "lifetime of an unused session of the console"},
	"console.certificate_file":                        {"FILE", "certificate chain of the console in PEM"},
	"console.key_file":                                {"FILE", "its key"},
	"console.own_ca":                                  {"", "create a CA that is valid for the console's name only"},
	"console.session":                                 {"", "lifetime of any session of the console"},
	"listen.socket_operator":                          {"", "accept the owner of the state directory as the local operator over a Unix socket there"},
	"listen.max_connections_per_address":              {"", "open connections of one address other than loopback"},
	"keys.store":                                      {"PLACE", "where the gateway's private keys live: file or tpm"},
	"keys.tpm_device":                                 {"FILE", "device of the TPM, or the Unix socket of one in software"},
	"vault.backend":                                   {"PLACE", "where the vault's key is: auto, file, secret_service, keychain or dpapi"},
	"vault.passphrase_file":                           {"FILE", "file with the passphrase of the vault's key, for the backend file"},
	"log.level":                                       {"LEVEL", "debug, info, warn or error"},
	"log.format":                                      {"FORMAT", "text or json"},
	"policy.dir":                                      {"DIR", "directory of *.cedar files that extend the built-in policies"},
	"skills.enabled":                                  {"", "whether tools of installed skills may run"},
	"skills.allow_wildcards":                          {"", "permits tools of skills to reach more than single hosts"},
	"skills.max_storage_bytes":                        {"BYTES", "storage of one skill for one user"},
	"wasm_runtime.enabled":                            {"", "whether WebAssembly guests may run"},
	"wasm_runtime.worker":                             {"PATH", "the program palyra-wasm; empty for the one in palyrad's directory"},
	"wasm_runtime.allow_inline_modules":               {"", "offers the tool wasm.run, whose calls include their module"},
	"wasm_runtime.fuel_budget":                        {"", "fuel of a call whose tool states nothing"},
	"wasm_runtime.fuel_ceiling":                       {"", "the most fuel that a tool may state"},
	"wasm_runtime.max_memory_bytes":                   {"BYTES", "memory of one guest"},
	"wasm_runtime.max_table_elements":                 {"", "elements of each table of a guest"},
	"wasm_runtime.max_module_bytes":                   {"BYTES", "the largest module"},
	"wasm_runtime.max_output_bytes":                   {"BYTES", "a guest's result and its standard error"},
	"wasm_runtime.time_limit_ms":                      {"MS", "wall clock limit of one guest in milliseconds"},
	"wasm_runtime.max_concurrent":                     {"", "guests that run at once"},
	"process_runner.enabled":                          {"", "whether process.run may start programs"},
	"process_runner.tier":                             {"TIER", "c: separate root and namespaces; b: filters and limits around a process that sees the machine's files"},
	"process_runner.fallback":                         {"RUNG", "lowest isolation that may replace a missing one: none, user_namespaces, landlock or job_object"},
	"process_runner.required_layers":                  {"LIST", "layers that the sandbox must have"},
	"process_runner.allowed_executables":              {"LIST", "names or absolute paths of programs that may be started; empty for all but the built-in denylist"},
	"process_runner.toolchains":                       {"DIRS", "directories of programs that are installed outside the system directories"},
	"process_runner.allow_interpreters":               {"", "whether interpreters may run files; unset leaves interpreters and shells to policy in Tier C"},
	"process_runner.strict_exec":                      {"", "denies programs to execute memory files"},
	"process_runner.egress_enforcement_mode":          {"MODE", "strict: only the destinations of the next flags; preflight: checked before the start only; unrestricted: the machine's network"},
	"process_runner.allowed_egress_hosts":             {"LIST", "destinations of programs: HOST:PORT, *.DOMAIN:PORT, addresses and prefixes with a port"},
	"process_runner.allowed_dns_suffixes":             {"LIST", "domains that may be reached with every host below them"},
	"process_runner.denied_egress_hosts":              {"LIST", "destinations that programs may not reach, even if they are allowed"},
	"process_runner.cpu_time_limit_ms":                {"MS", "processor time of one program in milliseconds"},
	"process_runner.memory_limit_bytes":               {"BYTES", "memory of one program"},
	"process_runner.max_output_bytes":                 {"BYTES", "bytes of each output stream that are kept, from its beginning and end"},
	"process_runner.max_concurrent":                   {"", "programs that run at once; 0 for as many as fit"},
	"process_runner.reserve_processes":                {"", "processes reserved for palyrad; 0 to derive it"},
	"process_runner.reserve_memory_bytes":             {"BYTES", "memory reserved for palyrad; 0 to derive it"},
	"process_runner.max_waiting":                      {"", "calls that wait for a program to end; further ones are refused"},
	"process_runner.max_processes":                    {"", "processes and threads of one program at once"},
	"process_runner.disk_limit_bytes":                 {"BYTES", "bytes that a program may write to its copy of the workspace"},
	"process_runner.max_files":                        {"", "files and directories that a program may create there"},
	"process_runner.tmp_limit_bytes":                  {"BYTES", "size of each temporary file system of a program"},
	"process_runner.caches":                           {"LIST", "build tools whose caches are kept between runs: go, npm, pip, cargo"},
	"process_runner.cache_limit_bytes":                {"BYTES", "all caches of one workspace together"},
	"process_runner.prepared":                         {"", "sandboxes that are built in advance"},
	"process_runner.uid_base":                         {"UID", "first user id of sandboxes when palyrad runs as root; 0 to select it"},
	"process_runner.uid_count":                        {"", "number of user ids from there on; 0 to select it"},
	"process_runner.egress_budget.connections":        {"", "connections"},
	"process_runner.egress_budget.concurrent":         {"", "connections at one time"},
	"process_runner.egress_budget.bytes_out":          {"BYTES", "bytes sent over all connections"},
	"process_runner.egress_budget.bytes_in":           {"BYTES", "bytes received over all connections"},
	"process_runner.egress_budget.requests":           {"", "requests of plain HTTP and of inspected hosts"},
	"process_runner.egress_budget.connection_time_ms": {"MS", "duration of one connection in milliseconds"},
	"http.allowed_hosts":                              {"LIST", "hosts that may be fetched from; empty for every public host"},
	"http.denied_hosts":                               {"LIST", "hosts that may not be fetched from, even if they are allowed"},
	"http.max_bytes":                                  {"BYTES", "the largest response body"},
	"http.timeout_ms":                                 {"MS", "time for a whole fetch in milliseconds"},
	"approvals.default_timeout":                       {"", "how long a call waits for a person"},
	"approvals.max_pending_per_run":                   {"", "pending approvals of one run"},
	"approvals.max_pending_per_principal":             {"", "pending approvals of one principal"},
	"approvals.max_created_per_minute_per_run":        {"", "new approvals of one run in a minute"},
	"approvals.max_created_per_minute_per_principal":  {"", "new approvals of one principal in a minute"},
	"approvals.cooldown":                              {"", "how long an identical request is refused after a denial or expiry"},
	"runs.max_tokens":                                 {"", "input and output tokens of all turns of a run"},
	"runs.max_duration":                               {"", "from the start of a run to its end, waiting for people included"},
	"runs.max_active_per_principal":                   {"", "runs of one principal that have not ended"},
	"runs.parallel_calls":                             {"", "calls of one turn that run in parallel"},
	"runs.abandoned_after":                            {"", "how long an interactive run waits for a disconnected client"},
	"sessions.idle":                                   {"", "time without any call after which a session ends"},
	"rate_limits.read.per_second":                     {"", "listing, showing and watching, a second"},
	"rate_limits.read.burst":                          {"", "the same, at once"},
	"rate_limits.mutate.per_second":                   {"", "changes of the gateway and messages of runs, a second"},
	"rate_limits.mutate.burst":                        {"", "the same, at once"},
	"rate_limits.decide.per_second":                   {"", "votes and revocations, a second"},
	"rate_limits.decide.burst":                        {"", "the same, at once"},
	"rate_limits.tool_call.per_second":                {"", "calls, a second"},
	"rate_limits.tool_call.burst":                     {"", "the same, at once"},
	"rate_limits.run.per_second":                      {"", "starts of runs, a second"},
	"rate_limits.run.burst":                           {"", "the same, at once"},
	"rate_limits.secret.per_second":                   {"", "reading and changing secrets of the vault, a second"},
	"rate_limits.secret.burst":                        {"", "the same, at once"},
	"rate_limits.pairing.per_second":                  {"", "steps of machines that pair, a second"},
	"rate_limits.pairing.burst":                       {"", "the same, at once"},
	"rate_limits.login.per_second":                    {"", "steps of people who log in, a second"},
	"rate_limits.login.burst":                         {"", "the same, at once"},
	"presence.aaguids":                                {"", "accepted models of authenticators for passkeys; empty for all"},
	"presence.attestation_roots":                      {"FILE", "certificates of manufacturers, PEM; an authenticator must then attest its model"},
	"oidc.issuer":                                     {"URL", "the identity provider at which people log in"},
	"oidc.client_id":                                  {"", "client id of the gateway at the provider"},
	"oidc.client_secret_file":                         {"FILE", "file with the client's secret"},
	"oidc.scopes":                                     {"", "requested scopes"},
	"oidc.username_claim":                             {"", "the claim with the member's name"},
	"oidc.username_domain":                            {"", "domain that must follow the '@' of the name, and is removed"},
	"oidc.groups_claim":                               {"", "the claim with the person's groups"},
	"oidc.algorithms":                                 {"", "accepted signatures of ID tokens"},
	"oidc.device_flow":                                {"", "admit people who confirm on another device"},
	"oidc.max_age":                                    {"", "maximum age of the authentication at the provider"},
	"oidc.session":                                    {"", "how long a login lasts"},
	"oidc.allow_owner":                                {"", "permit groups of the provider to be owners"},
	"rate_limits.global_factor":                       {"", "size of the shared buckets, as a multiple of the bucket of one caller"},
	"quotas.bytes_per_second":                         {"BYTES", "bytes that are added to the bucket per second"},
	"quotas.burst_bytes":                              {"BYTES", "bytes that may be sent and stored at once"},
	"quotas.day_bytes":                                {"BYTES", "bytes that may be stored within 24 hours"},
	"quotas.in_flight_bytes":                          {"BYTES", "inputs of its calls that have not ended"},
	"quotas.in_flight_total_bytes":                    {"BYTES", "the same of all principals"},
	"results.retention":                               {"", "how long results are kept; afterwards their digests stay; 0 for no limit"},
	"storage.reserve_bytes":                           {"BYTES", "disk space reserved for votes, freeze and revocations; 0 for none"},
}
