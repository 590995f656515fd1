package profile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/profile"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// profileSet loads a profile after applying change to its text.
func profileSet(t *testing.T, tools []tool.Descriptor, name string, change func(string) string) *policy.Set {
	t.Helper()
	for _, p := range profile.All() {
		if p.Name != name {
			continue
		}
		sources, _ := splitProfile(p)
		for i := range sources {
			sources[i].Text = change(sources[i].Text)
		}
		set := must.Get(policy.Load(policy.Config{
			Sources: sources, Tools: tools, Members: []access.Member{
				{Principal: policytest.Alice, Roles: []access.Role{access.RoleOwner}},
				{Principal: policytest.Bob, Roles: []access.Role{access.RoleOperator}},
				{Principal: access.User("carol"), Roles: []access.Role{access.RoleOperator}},
				{Principal: policytest.Agent, Owner: policytest.Alice, Roles: []access.Role{access.RoleAgent}},
			},
		}))(t)
		return set
	}
	t.Fatalf("profile %s not found", name)
	return nil
}

func asItIs(text string) string { return text }

// found is a file as a search result or a call describes it.
type found struct {
	path  string
	links int
}

// free reports whether a set allows reading and searching a file without approval.
func free(set *policy.Set, f found) bool {
	verdicts := make(map[policy.Effect]bool)
	for name, args := range map[string]string{"fs.read": `{"path":"x"}`, "fs.search": `{"pattern":"x"}`} {
		r := policytest.Request(name, args)
		r.Facts = tool.Facts{Path: f.path, HardLinks: f.links, SandboxTier: "builtin", SandboxLevel: "none"}
		verdicts[set.Evaluate(r, nil).Effect()] = true
	}
	if len(verdicts) != 1 {
		return false
	}
	return verdicts[policy.Allow]
}

// guarded are files that no profile allows an agent to read without approval.
var guarded = []found{
	{".env", 1}, {".ENV", 1}, {"app/.env", 0}, {"SECRETS/.ENV", 1}, {"prod.Env", 1}, {".env.local", 1}, {".env~", 1}, {"#.env#", 1},
	{".env-prod", 1}, {".env_old", 1}, {".envrc", 1}, {".netrc", 1}, {".pgpass", 1}, {".htpasswd", 1}, {".cargo/credentials.toml", 1},
	{"vendor/.git-credentials", 1}, {"vendor/.cargo/credentials", 1}, {"node_modules/x/.env", 2}, {"cle\u0301/.e\u200dnv", 1},
	{"tls/server.pem", 1}, {"tls/SERVER.PEM.BAK", 1}, {"server.pem~", 1}, {".server.pem.swp", 1}, {"server.pem.1", 1}, {"a.p12", 1}, {"a.pfx.old", 1},
	{"server.key", 1}, {"server.key.orig", 1}, {"server.key~", 1}, {"#server.key#", 1}, {"server.key-1", 1}, {"server.key_old", 1},
	{"server.\u212aey", 1}, {"a.jks", 1}, {"debug.keystore", 1}, {"putty.ppk", 1}, {"id_rsa", 1}, {"ID_R\u017fA.bak", 1}, {"id_dsa", 1},
	{"id_ecdsa_sk", 1}, {"x/id_ed25519.old", 1}, {".aws/credentials", 1},
	{"notes.txt", 2}, {"src/notes.txt", 1000}, {"my_node_modules/x", 2}, {"node_modules", 2}, {"targets/x", 2}, {".git/config", 2},
}

// unguarded are directories, and files that agents commonly use.
var unguarded = []found{
	{".", 0}, {"src", 0}, {"secrets", 0}, {"main.go", 1}, {"README.md", 1}, {"src/environment.ts", 1}, {"docs/keys.md", 1}, {"monkey.go", 1}, {"", 0},
	{"node_modules/a/index.js", 2}, {"web/node_modules/.pnpm/a@1.0.0/node_modules/a/index.js", 3}, {"NODE_MODULES/a", 2},
	{".pnpm-store/v10/files/00/ab", 2}, {"x/.pnpm-store/v10/files/00/ab", 2}, {"vendor/a/b.go", 2}, {"x/vendor/a/b.go", 2},
	{"target/debug/app", 2}, {"x/target/debug/app", 2}, {".cargo/bin/x", 2}, {"x/.cargo/bin/x", 2}, {".venv/bin/x", 2}, {"x/.venv/bin/x", 2},
	{"site-packages/a.py", 2}, {"lib/site-packages/a.py", 2}, {".git/objects/00/ab", 2}, {"x/.git/objects/00/ab", 2},
	{"node_modules/tls/test/key.pem", 2}, {"x/node_modules/aws/lib/credentials.js", 2}, {"vendor/jwt/test/private.key", 1}, {"x/vendor/jwt/private.key", 1},
	{".venv/etc/cacert.pem", 1}, {"x/.venv/etc/cacert.pem", 1}, {"site-packages/certifi/cacert.pem", 1}, {"lib/site-packages/certifi/cacert.pem", 1},
	{".cargo/registry/src/tls/ca.pem", 2}, {"x/.cargo/registry/src/tls/ca.pem", 2},
}

func TestProfilesGuardFiles(t *testing.T) {
	t.Parallel()
	tools := builtinTools(t)
	for _, p := range profile.All() {
		set := profileSet(t, tools, p.Name, asItIs)
		for _, f := range guarded {
			if free(set, f) {
				t.Errorf("%s: %+q with %d links is read without anybody's knowing", p.Name, f.path, f.links)
			}
		}
		for _, f := range unguarded {
			if !free(set, f) {
				t.Errorf("%s: %+q with %d links is not free", p.Name, f.path, f.links)
			}
		}
	}
}

// Control of TestProfilesGuardFiles: if any one pattern of the rules is changed, the decision
// about a file of the lists is wrong.
func TestProfilesGuardFilesByEachPattern(t *testing.T) {
	t.Parallel()
	tools := builtinTools(t)
	const one = `context.path_folded like "`
	text := profile.All()[0].Files()[0].Text
	patterns := strings.Count(text, one)
	for i := range patterns {
		var name string
		set := profileSet(t, tools, "laptop", func(text string) string {
			parts := strings.SplitAfter(text, one)
			name, _, _ = strings.Cut(parts[i+1], `"`)
			parts[i+1] = fmt.Sprintf("none of %s", parts[i+1])
			return strings.Join(parts, "")
		})
		wrongly := slices.ContainsFunc(guarded, func(f found) bool { return free(set, f) }) ||
			slices.ContainsFunc(unguarded, func(f found) bool { return !free(set, f) })
		if !wrongly {
			t.Errorf("pattern %d, %s, is missed by no file", i+1, name)
		}
	}
	if patterns < 40 {
		t.Errorf("%d patterns were tried", patterns)
	}
	t.Logf("%d patterns, %d files", patterns, len(guarded)+len(unguarded))
}
