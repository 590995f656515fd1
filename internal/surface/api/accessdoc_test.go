package api_test

import (
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/surface/api"
)

var update = flag.Bool("update", false, "write the tables of docs/access.md anew")

const (
	accessDoc       = "../../../docs/access.md"
	beginsGenerated = "<!-- What follows is written by `go test ./internal/surface/api -run AccessDoc -update`. -->\n"
)

// everybody stands for the members of any role, and of none.
const everybody = "everybody"

// byDefault asks the default policies who has a permission: one member of each
// role, and one of none.
func byDefault(t *testing.T) func(access.Permission) []string {
	t.Helper()
	members := map[string]access.Member{everybody: {Principal: access.User("of-no-role")}}
	for _, role := range access.BuiltinRoles {
		m := access.Member{Principal: access.User("an-" + string(role)), Roles: []access.Role{role}}
		if role == access.RoleAgent {
			m.Principal, m.Owner = access.Agent("an-agent"), policytest.Alice
		}
		members[string(role)] = m
	}
	set := policytest.Set(t, policytest.Options{Members: slices.Collect(maps.Values(members))})
	return func(p access.Permission) []string {
		var out []string
		for _, name := range append([]string{everybody}, roleNames()...) {
			m := members[name]
			caller := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, Surface: access.SurfaceGRPC, Paired: true}
			if set.Permit(policy.AccessRequest{Caller: caller, Permission: p}) == nil {
				out = append(out, name)
			}
		}
		if slices.Contains(out, everybody) {
			return []string{everybody}
		}
		return out
	}
}

func roleNames() []string {
	var names []string
	for _, r := range access.BuiltinRoles {
		names = append(names, string(r))
	}
	return names
}

// credentials are what a method takes.
func credentials(m api.Method) string {
	switch {
	case m.Needs == api.NeedsNothing:
		return "none"
	case m.Needs == api.NeedsSignature:
		return "signature of a member's device in the request"
	case m.Needs == api.NeedsRenewable:
		return "certificate, also one that expired in the last 30 days"
	case m.Needs == api.NeedsCertificate:
		return "certificate, no socket"
	}
	list := []string{"certificate"}
	if !slices.Contains(access.NeverByToken, m.Permission) {
		list = append(list, "token")
	}
	if m.Needs == api.NeedsDevice {
		list = append(list, "console")
	}
	return strings.Join(list, ", ")
}

// guardOf are the columns of what a route takes.
func guardOf(r api.Route, who func(access.Permission) []string) string {
	if r.Guard == nil {
		return "none | anybody | none | none"
	}
	if r.Guard.Permission == "" {
		return fmt.Sprintf("none | anybody | `%s` | %s", r.Guard.Limit, credentials(*r.Guard))
	}
	// No session of the console comes to their listeners.
	row := *r.Guard
	if row.Needs == api.NeedsDevice {
		row.Needs = api.NeedsProgram
	}
	return fmt.Sprintf("`%s` | %s | `%s` | %s", row.Permission, strings.Join(who(row.Permission), ", "), row.Limit, credentials(row))
}

// accessTables are the generated part of docs/access.md.
func accessTables(t *testing.T, methods map[string]api.Method) string {
	t.Helper()
	who := byDefault(t)
	var b strings.Builder
	b.WriteString("\n## Methods\n\n| method | permission | roles that have it | limit class | audit | credential |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		m := methods[procedure]
		permission, roles := "none", []string{"anybody"}
		if m.Permission != "" {
			permission, roles = "`"+string(m.Permission)+"`", who(m.Permission)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s | %s |\n", strings.TrimPrefix(procedure, "/"), permission, strings.Join(roles, ", "), m.Limit, m.Audit, credentials(m))
	}
	b.WriteString("\n## Other routes\n\nPlain HTTP. A route without a permission takes no credential: it is for anybody who reaches the listener, which is on this machine unless the configuration says otherwise.\n\n| route | listener | says | permission | roles that have it | limit class | credential |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for pattern, r := range sorted(maps.Collect(api.Routes())) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", pattern, r.Listener, r.Says, guardOf(r, who))
	}
	b.WriteString("\n## Permissions\n\n| permission | roles that have it | a token can have it |\n| --- | --- | --- |\n")
	for _, p := range slices.Sorted(slices.Values(access.Permissions)) {
		can := "yes"
		if slices.Contains(access.NeverByToken, p) {
			can = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p, strings.Join(who(p), ", "), can)
	}
	return b.String()
}

// TestAccessDocIsCurrent: docs/access.md has what the table and the default
// policies say, for every method.
func TestAccessDocIsCurrent(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile(accessDoc))(t))
	head, tables, ok := strings.Cut(text, beginsGenerated)
	if !ok {
		t.Fatalf("%s has no line %q", accessDoc, beginsGenerated)
	}
	want := accessTables(t, maps.Collect(api.Methods()))
	if *update {
		must.Do(t, os.WriteFile(accessDoc, []byte(head+beginsGenerated+want), 0o644))
		tables = want
	}
	if tables != want {
		t.Errorf("%s is not current: go test ./internal/surface/api -run AccessDoc -update", accessDoc)
	}
	for procedure := range procedures() {
		if !strings.Contains(tables, "\n| `"+strings.TrimPrefix(procedure, "/")+"` | ") {
			t.Errorf("%s has no row in %s", procedure, accessDoc)
		}
	}
	for _, p := range access.Permissions {
		if !strings.Contains(tables, "\n| `"+string(p)+"` | ") {
			t.Errorf("%s has no row in %s", p, accessDoc)
		}
	}
	// The controls: a row that is gone, one that says something else, and policies
	// that give more than the default ones.
	for _, change := range []func(map[string]api.Method){
		func(m map[string]api.Method) { delete(m, "/palyra.v1.GatewayService/CallTool") },
		func(m map[string]api.Method) {
			row := m["/palyra.v1.GatewayService/CallTool"]
			row.Permission = access.PermAccessRead
			m["/palyra.v1.GatewayService/CallTool"] = row
		},
	} {
		other := maps.Collect(api.Methods())
		change(other)
		if tables == accessTables(t, other) {
			t.Error("the control: another table has the same rows")
		}
	}
}

// TestAccessDocKnowsTheRoles: what the document says of roles comes from the
// policies; these are known from elsewhere.
func TestAccessDocKnowsTheRoles(t *testing.T) {
	t.Parallel()
	who := byDefault(t)
	for p, want := range map[access.Permission][]string{
		access.PermDaemonStatus:     {everybody},
		access.PermApprovalDecide:   {"owner", "admin", "operator"},
		access.PermAccessWriteOwner: {"owner"},
		access.PermToolCall:         {"owner", "admin", "operator", "developer", "agent"},
		"no.such":                   nil,
	} {
		if got := who(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p, got, want)
		}
	}
}

// sorted are the rows of a table by their keys, in order.
func sorted[T any](table map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if !yield(key, table[key]) {
				return
			}
		}
	}
}
