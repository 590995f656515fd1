package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/dnsname"
	"palyra/internal/core/lazyregexp"
)

// checker collects findings. Its methods check single values; each section of the configuration
// checks its own values with them.
type checker struct {
	origins  Origins
	findings Findings
}

// check returns the findings about the effective values, in the order of the keys.
func check(c *Config, origins Origins) Findings {
	k := &checker{origins: origins}
	checkPaths(k, c)
	checkListen(k, c)
	checkConsole(k, c)
	checkWords(k, c)
	c.Vault.check(k)
	checkWorkspaces(k, c)
	checkTools(k, c)
	c.ProcessRunner.check(k)
	c.WASM.check(k)
	c.Skills.check(k)
	k.hosts("http.allowed_hosts", c.HTTP.AllowedHosts)
	k.hosts("http.denied_hosts", c.HTTP.DeniedHosts)
	k.storable("http.max_bytes", c.HTTP.MaxBytes, 1)
	between(k, "http.timeout_ms", c.HTTP.TimeoutMS, 100, hourMS)
	c.Approvals.check(k)
	c.Runs.check(k)
	checkModels(k, c)
	checkSecrets(k, c)
	checkOIDC(k, c)
	checkOAuthIssuers(k, c)
	checkEvaluators(k, c)
	checkNotify(k, c)
	c.RateLimits.check(k)
	checkClients(k, c.MCPClients)
	c.Quotas.check(k)
	if c.Results.Retention != 0 { // 0 means no limit
		// For a day, a retry with an idempotency key gets the result of the first call.
		between(k, "results.retention", c.Results.Retention, 24*time.Hour, 87600*time.Hour)
	}
	between(k, "storage.reserve_bytes", c.Storage.ReserveBytes, 0, 64*gib)
	return k.findings
}

const (
	hourMS = 3_600_000
	dayMS  = 24 * hourMS
)

func (k *checker) find(key, message, remedy string) {
	origin, ok := k.origins[key]
	if !ok {
		origin = k.origins[parent(key)]
	}
	k.findings = append(k.findings, Finding{Key: key, Origin: origin, Message: message, Remedy: remedy})
}

// MaxResult is the largest result of a call that can be stored, in bytes: the limit of the store's
// blobs, 16 MiB.
const MaxResult = 16 << 20

// storable checks a limit in bytes for data of which a result may contain times copies (stdout
// and stderr: 2). Base64 is a third longer than the data, and 1 MiB remains for the rest of the
// result.
func (k *checker) storable(key string, value, times int64) {
	most := (MaxResult - mib) * 3 / 4 / times / mib * mib
	if value > most {
		k.find(key, fmt.Sprintf("is %d, and a result with so much in it could not be stored: results have at most %d bytes", value, MaxResult),
			fmt.Sprintf("set it between %d and %d", kib, most))
		return
	}
	between(k, key, value, kib, most)
}

func between[T cmp.Ordered](k *checker, key string, value, least, most T) {
	if value < least || value > most {
		k.find(key, fmt.Sprintf("is %s", showAny(value)), fmt.Sprintf("set it between %s and %s", showAny(least), showAny(most)))
	}
}

func showAny(v any) string {
	if d, ok := v.(time.Duration); ok {
		return shortDuration(d)
	}
	return fmt.Sprint(v)
}

func (k *checker) oneOf(key, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	k.find(key, "is "+quote(value), "set it to one of "+strings.Join(words, ", "))
}

func (k *checker) absolute(key, path string) bool {
	if filepath.IsAbs(path) {
		return true
	}
	k.find(key, "is "+quote(path)+", which is not an absolute path", "write it from the root, or from ~/")
	return false
}

func checkPaths(k *checker, c *Config) {
	if c.StateDir == "" {
		k.find("state_dir", "is not known without a home directory", "set state_dir or HOME")
	} else {
		k.absolute("state_dir", c.StateDir)
	}
	optional := k.origins["policy.dir"].Source == SourceDefault && !exists(c.Policy.Dir)
	if c.Policy.Dir != "" && k.absolute("policy.dir", c.Policy.Dir) && !isDir(c.Policy.Dir) && !optional {
		k.find("policy.dir", "is "+quote(c.Policy.Dir)+", which is not a directory", "create it with `palyra policy init --profile laptop`, or leave policy.dir out")
	}
	if c.Client.Credentials != "" {
		k.absolute("client.credentials", c.Client.Credentials)
	}
	if c.TrustDomain != "" && !trustDomain(c.TrustDomain) {
		k.find("trust_domain", "is "+quote(c.TrustDomain), "use a lower-case domain name such as palyra.example.org")
	}
}

// trustDomain reports whether name has the characters of a domain in lower case; package
// identity checks it completely.
func trustDomain(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && len(name) <= 253 && strings.Trim(name, letters+".-") == "" && strings.Trim(name, ".-") == name
}

func checkWords(k *checker, c *Config) {
	k.oneOf("keys.store", c.Keys.Store, KeysInFiles, KeysInTPM)
	c.Presence.check(k)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "text", "json")
	seen := make(map[access.Role]bool)
	for _, role := range c.Roles {
		_, err := access.ParseRole(string(role))
		switch {
		case err != nil:
			k.find("roles", "has "+err.Error(), "")
		case slices.Contains(access.BuiltinRoles, role):
			k.find("roles", "has "+quote(string(role))+", which always exists", "leave it out")
		case seen[role]:
			k.find("roles", "has "+quote(string(role))+" twice", "leave one out")
		}
		seen[role] = true
	}
}

func checkListen(k *checker, c *Config) {
	host, ok := k.address("listen.api", c.Listen.API)
	if ok && !dnsname.Loopback(host) {
		if !c.Listen.AllowRemote {
			k.find("listen.api", "is "+quote(c.Listen.API)+", which other machines can reach", "set listen.allow_remote = true, or listen on 127.0.0.1")
		} else if len(c.Listen.ServerNames) == 0 {
			k.find("listen.api", "is "+quote(c.Listen.API)+", but no name in the server certificate is one that other machines use", "name the host as others reach it in listen.server_names")
		}
	}
	for _, name := range c.Listen.ServerNames {
		if !serverName(name) {
			k.find("listen.server_names", "has "+quote(name), "use DNS names and IP addresses, without port")
		}
	}
	if c.Listen.Metrics != "" {
		if host, ok := k.address("listen.metrics", c.Listen.Metrics); ok && !dnsname.Loopback(host) {
			k.find("listen.metrics", "is "+quote(c.Listen.Metrics)+", and metrics have neither TLS nor a login", "listen on 127.0.0.1, and put a proxy before it")
		}
	}
	for _, uid := range c.Listen.AgentUIDs {
		if uid < 0 || uid > math.MaxUint32 {
			k.find("listen.agent_uids", "has "+strconv.FormatInt(uid, 10), "use the number of a user, as `id -u NAME` prints it")
		}
	}
	if c.Listen.Agents != "" {
		if host, ok := k.address("listen.agents", c.Listen.Agents); ok && !dnsname.Loopback(host) {
			k.find("listen.agents", "is "+quote(c.Listen.Agents)+", where tokens would cross the network in plain", "listen on 127.0.0.1; agents on other hosts use listen.api")
		}
	}
	k.address("client.address", c.Client.Address)
}

func (k *checker) address(key, value string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		k.find(key, "is "+quote(value), `set it to "host:port" with a numeric port`)
		return "", false
	}
	return host, true
}

func serverName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return dnsname.Valid(name)
}

var workspaceForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func checkWorkspaces(k *checker, c *Config) {
	seen := make(map[string]bool)
	for i, w := range c.Workspaces {
		each := fmt.Sprintf("workspaces[%d]", i)
		if !workspaceForm.MatchString(w.Name) {
			k.find(each+".name", "is "+quote(w.Name), "use 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit")
		} else if seen[w.Name] {
			k.find(each+".name", "is "+quote(w.Name)+" for the second time", "give each workspace a name of its own")
		}
		seen[w.Name] = true
		w.checkMode(k, each)
		if !k.absolute(each+".path", w.Path) {
			continue
		}
		switch {
		case filepath.Clean(w.Path) == filepath.VolumeName(w.Path)+string(filepath.Separator):
			k.find(each+".path", "is the root of the file system", "declare the directory that the tools need")
		case c.StateDir != "" && overlap(w.Path, c.StateDir):
			k.find(each+".path", "is "+quote(w.Path)+", which overlaps palyrad's own state in "+quote(c.StateDir), "keep workspaces and state_dir apart")
		default:
			w.checkRules(k, each, c)
		}
	}
}

// checkRules refuses a workspace that contains policies, keys or the configuration file.
func (w Workspace) checkRules(k *checker, each string, c *Config) {
	type rule struct{ name, path string }
	rules := []rule{
		{"policy.dir", c.Policy.Dir}, {"the configuration file", c.Source}, {"client.credentials", c.Client.Credentials},
		{"vault.passphrase_file", c.Vault.PassphraseFile}, {"console.key_file", c.Console.KeyFile},
	}
	for i, m := range c.Models {
		rules = append(rules, rule{fmt.Sprintf("models[%d].api_key_file", i), m.APIKeyFile})
	}
	for i, s := range c.Secrets {
		rules = append(rules, rule{fmt.Sprintf("secrets[%d].file", i), s.File})
	}
	for _, rule := range rules {
		if rule.path != "" && overlap(w.Path, rule.path) {
			k.find(each+".path", "is "+quote(w.Path)+", which overlaps "+rule.name+" ("+quote(rule.path)+")",
				"keep it outside every workspace: files that an agent may read or write must not control its permissions")
		}
	}
}

// Overlapping returns the workspace that contains a path or is inside it, if any. Files that
// decide what is allowed MUST NOT be in a workspace.
func (c *Config) Overlapping(path string) (Workspace, bool) {
	for _, w := range c.Workspaces {
		if overlap(w.Path, path) {
			return w, true
		}
	}
	return Workspace{}, false
}

// overlap reports whether one directory is the other or is inside it, after resolving existing
// symbolic links.
func overlap(a, b string) bool {
	a, b = resolved(a), resolved(b)
	return inside(a, b) || inside(b, a)
}

func inside(dir, base string) bool {
	rel, err := filepath.Rel(base, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolved resolves the symbolic links in the longest existing part of path.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	up := filepath.Dir(path)
	if up == path {
		return path
	}
	return filepath.Join(resolved(up), filepath.Base(path))
}

var toolForm = lazyregexp.New(`^([A-Za-z0-9_.-]+/)?[A-Za-z0-9_.-]+\*?$|^([A-Za-z0-9_.-]+/)?\*$`)

var channelForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:#@/-]{0,127}$`)

// IsChannel reports whether a name has the form of a messaging channel's name.
func IsChannel(name string) bool { return channelForm.MatchString(name) }

func checkCeilings(k *checker, c *Config) {
	if len(c.AllowedPrincipals) == 0 {
		k.find("allowed_principals", "is empty: no request could be permitted", `leave it out, or write ["*"], for every member`)
	}
	for _, name := range c.AllowedPrincipals {
		p, err := access.ParsePrincipal(name)
		if name != "*" && (err != nil || p.Kind != access.KindUser && p.Kind != access.KindAgent) {
			k.find("allowed_principals", "has "+quote(name), `use user:NAME, agent:NAME, or "*"`)
		}
	}
	for _, name := range c.AllowedChannels {
		if !IsChannel(name) {
			k.find("allowed_channels", "has "+quote(name), "a channel is 1 to 128 letters, digits and . _ : # @ / -")
		}
	}
}

func checkTools(k *checker, c *Config) {
	for _, name := range c.AllowedTools {
		if !toolForm.MatchString(name) {
			k.find("allowed_tools", "has "+quote(name), `use a tool's name, a prefix that ends in '*', or "*"`)
		}
	}
	checkCeilings(k, c)
	between(k, "max_calls_per_run", c.MaxCallsPerRun, 1, 1_000_000)
	between(k, "max_calls_per_session", c.MaxCallsPerSession, 1, 1_000_000)
	between(k, "sessions.idle", c.Sessions.Idle, time.Minute, 7*24*time.Hour)
	between(k, "execution_timeout_ms", c.ExecutionTimeoutMS, 100, dayMS)
	between(k, "listen.max_connections", c.Listen.MaxConnections, 16, 1_000_000)
	between(k, "listen.max_connections_per_address", c.Listen.MaxConnectionsPerAddress, 4, 1_000_000)
	between(k, "stop_timeout", c.StopTimeout, 0, time.Hour)
}

// hosts checks the rough form of host rules. Package egress parses them and is stricter.
func (k *checker) hosts(key string, rules []string) {
	for _, rule := range rules {
		switch {
		case rule == "" || strings.ContainsFunc(rule, func(r rune) bool { return r <= ' ' || r > '~' }):
			k.find(key, "has "+quote(rule), "use an ASCII host name or address, with an optional :port")
		case isURL(rule):
			k.find(key, "has "+quote(rule), "leave out scheme, user and path: write "+hostOf(rule))
		case rule == "*" || strings.HasPrefix(rule, "*:"):
			k.find(key, "has "+quote(rule), "name the hosts, or *.domain for every host below a domain")
		case wrongPort(rule):
			k.find(key, "has "+quote(rule), "use a port from 1 to 65535")
		}
	}
}

func (a Approvals) check(k *checker) {
	between(k, "approvals.default_timeout", a.DefaultTimeout, 30*time.Second, 24*time.Hour)
	between(k, "approvals.max_pending_per_run", a.MaxPendingPerRun, 1, 10_000)
	between(k, "approvals.max_pending_per_principal", a.MaxPendingPerPrincipal, 1, 100_000)
	between(k, "approvals.max_created_per_minute_per_run", a.MaxCreatedPerMinutePerRun, 1, 10_000)
	between(k, "approvals.max_created_per_minute_per_principal", a.MaxCreatedPerMinutePerPrincipal, 1, 10_000)
	between(k, "approvals.cooldown", a.Cooldown, 0, time.Hour)
}

// checkClients checks the names of MCP clients, and that their call limits leave a person time
// to answer.
func checkClients(k *checker, list []MCPClient) {
	named := make(map[string]bool)
	for i, c := range list {
		key := fmt.Sprintf("mcp_clients[%d]", i)
		switch {
		case c.Name == "":
			k.find(key+".name", "is missing", "name the client as it names itself, such as codex-mcp-client")
		case named[c.Name]:
			k.find(key+".name", "is "+quote(c.Name)+" for the second time", "give each client one table")
		}
		named[c.Name] = true
		if c.CallLimit != 0 {
			between(k, key+".call_limit", c.CallLimit, 10*time.Second, 48*time.Hour)
		}
	}
}

// check requires limits that permit one input of the maximum size: otherwise no call could be
// made.
func (q Quotas) check(k *checker) {
	between(k, "quotas.bytes_per_second", q.BytesPerSecond, kib, 64*gib)
	between(k, "quotas.burst_bytes", q.BurstBytes, 4*mib, 1024*gib)
	between(k, "quotas.day_bytes", q.DayBytes, 4*mib, 1024*1024*gib)
	between(k, "quotas.in_flight_bytes", q.InFlightBytes, 4*mib, 64*gib)
	between(k, "quotas.in_flight_total_bytes", q.InFlightTotalBytes, max(q.InFlightBytes, 4*mib), 1024*gib)
}

func (r RateLimits) check(k *checker) {
	for _, class := range []struct {
		name  string
		limit RateLimit
	}{
		{"read", r.Read}, {"mutate", r.Mutate}, {"decide", r.Decide}, {"tool_call", r.ToolCall}, {"run", r.Run}, {"secret", r.Secret}, {"pairing", r.Pairing}, {"login", r.Login},
	} {
		key := "rate_limits." + class.name
		// The condition also refuses NaN, which TOML has.
		if p := class.limit.PerSecond; !(p >= 0.001 && p <= 1e6) {
			k.find(key+".per_second", "is "+fmt.Sprint(p), "set it between 0.001 and 1000000")
		}
		between(k, key+".burst", class.limit.Burst, 1, 1_000_000)
	}
	between(k, "rate_limits.global_factor", r.GlobalFactor, 1, 10_000)
}

var aaguidForm = lazyregexp.New(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (p Presence) check(k *checker) {
	for _, id := range p.AAGUIDs {
		if !aaguidForm.MatchString(id) {
			k.find("presence.aaguids", "has "+quote(id), "write the AAGUID of a make of authenticators as a UUID in small letters")
		}
	}
	if p.AttestationRoots != "" && len(p.AAGUIDs) == 0 {
		k.find("presence.attestation_roots", "is set, and no make is named that would have to attest itself", "name makes in presence.aaguids, or leave it out")
	}
}
