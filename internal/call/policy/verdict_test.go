package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

func TestZeroVerdictDenies(t *testing.T) {
	t.Parallel()
	var v policy.Verdict
	if v.Effect() != policy.Deny || v.Reason() != reason.PolicyDenied || v.Remedy() == "" {
		t.Errorf("the zero verdict: %v, %v, %q", v.Effect(), v.Reason(), v.Remedy())
	}
	v, err := (&policy.Engine{}).Evaluate(t.Context(), policytest.Request("fs.read", `{"path":"a"}`), nil)
	if err != nil || v.Effect() != policy.Deny || v.Reason() != reason.PolicyError {
		t.Errorf("the zero engine: %v, %v, %v", err, v.Effect(), v.Reason())
	}
	if (policy.Judgement{}).Allowed {
		t.Error("the zero judgement allows")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, err = policytest.Engine(t, policytest.Options{}).Evaluate(ctx, policytest.Request("fs.read", `{"path":"a"}`), nil)
	if !errors.Is(err, context.Canceled) || v.Effect() != policy.Deny {
		t.Errorf("cancelled: %v, %v", err, v.Effect())
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	vote := policytest.Vote(policytest.Bob, access.RoleOperator)
	good := policy.Grant{ID: "grant-good", Approval: policytest.Approval(vote)}
	empty := policy.Grant{ID: "grant-empty", Approval: policytest.Approval()}
	own := policy.Grant{ID: "grant-own", Approval: policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner))}
	set := policytest.Set(t, policytest.Options{TwoUsers: true})
	v := set.Evaluate(run, []policy.Grant{empty, own, good})
	if v.Effect() != policy.Allow || v.GrantID() != "grant-good" {
		t.Errorf("got %v by %q, want allow by grant-good", v.Effect(), v.GrantID())
	}
	for _, g := range []policy.Grant{empty, own} {
		if v := set.Evaluate(run, []policy.Grant{g}); v.Effect() != policy.Ask || v.GrantID() != "" {
			t.Errorf("%s: %v by %q, want ask", g.ID, v.Effect(), v.GrantID())
		}
	}
	// A grant counts as standing, even if its vote does not have that flag.
	strict := policytest.Set(t, policytest.Options{TwoUsers: true, Policies: noStandingForDestructive})
	if v := strict.Evaluate(run, []policy.Grant{good}); v.Effect() != policy.Ask {
		t.Errorf("with no standing grants: %v, want ask", v.Effect())
	}
	// A call that is allowed without a grant cites none.
	read := policytest.Request("fs.read", `{"path":"a"}`)
	if v := set.Evaluate(read, []policy.Grant{good}); v.Effect() != policy.Allow || v.GrantID() != "" {
		t.Errorf("reading: %v by %q, want allow by no grant", v.Effect(), v.GrantID())
	}
}

func TestSeverityAndTimeout(t *testing.T) {
	t.Parallel()
	ask := func(severity, timeout string) string {
		return fmt.Sprintf("%s %s forbid(principal, action == Action::\"tool.execute/http.fetch\", resource) unless { context.approval.granted };\n", severity, timeout)
	}
	for _, c := range []struct {
		policies, severity string
		timeout            time.Duration
	}{
		{"", "medium", 0}, // the default timeout of the desk applies
		{ask(`@id("a")`, ``) + ask(`@id("b")`, `@timeout("2h")`), "medium", 2 * time.Hour},
		{ask(`@id("a") @severity("high")`, `@timeout("1h")`), "high", time.Hour},
		{ask(`@id("a") @severity("low")`, `@timeout("5m")`) + ask(`@id("b")`, `@timeout("90s")`), "medium", 90 * time.Second},
		{ask(`@id("a") @severity("critical")`, `@timeout("1s")`), "critical", 30 * time.Second},
		{ask(`@id("a")`, `@timeout("100h")`), "medium", 24 * time.Hour},
	} {
		v := policytest.Set(t, policytest.Options{Policies: c.policies}).Evaluate(policytest.Request("http.fetch", `{"url":"https://x"}`), nil)
		if v.Effect() != policy.Ask || v.Severity() != c.severity || v.Timeout() != c.timeout {
			t.Errorf("%q: %v, %v, %v; want ask, %v, %v", c.policies, v.Effect(), v.Severity(), v.Timeout(), c.severity, c.timeout)
		}
	}
}

func TestVerdictJSON(t *testing.T) {
	t.Parallel()
	v := policytest.Set(t, policytest.Options{Policies: twoApprovers, TwoUsers: true, Members: []access.Member{
		{Principal: access.User("carol"), Roles: []access.Role{access.RoleOperator}},
	}}).Evaluate(run, nil)
	text := must.Get(json.Marshal(v))(t)
	var got struct {
		Effect      string `json:"effect"`
		Reason      string `json:"reason"`
		Determining []policy.Determining
		Snapshot    string `json:"snapshot_digest"`
		Missing     string
		TimeoutMS   int64 `json:"timeout_ms"`
	}
	must.Do(t, json.Unmarshal(text, &got))
	ids := []string{}
	for _, d := range got.Determining {
		ids = append(ids, d.ID)
	}
	if got.Effect != "ask" || got.Reason != "APPROVAL_REQUIRED" || got.Snapshot != v.SnapshotDigest() || got.TimeoutMS != 0 ||
		got.Missing != "the approval of 2 people" {
		t.Errorf("got %s", text)
	}
	if !slices.Equal(ids, []string{"tools.destructive-approved", "tools.sensitive-approved", "two-approvers"}) {
		t.Errorf("determining %v", ids)
	}
}

func TestRequestRoundTrip(t *testing.T) {
	t.Parallel()
	r := fullRequest()
	r.Time = time.Now().In(time.FixedZone("x", 3600))
	r.Args = json.RawMessage(`{"argv":["<a>","é","\u2028"],"timeout_ms":1}`)
	r.Channel, r.SkillID = "chat", "skill"
	first := must.Get(canonical.Marshal(r))(t)
	var back policy.Request
	must.Do(t, json.Unmarshal(first, &back))
	second, err := canonical.Marshal(back)
	if err != nil || string(first) != string(second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	set := policytest.Set(t, policytest.Options{Snapshot: policy.Snapshot{AllowedChannels: []string{"chat"}, ActiveSkills: []string{"skill"}}})
	a, _ := json.Marshal(set.Evaluate(r, nil))
	b, _ := json.Marshal(set.Evaluate(back, nil))
	if string(a) != string(b) {
		t.Errorf("replay differs:\n%s\n%s", a, b)
	}
}

// The canonical form of a value equals its MarshalJSON output, also within another value.
func TestShapes(t *testing.T) {
	t.Parallel()
	var _ canonical.Shaped = policy.Request{}
	var _ canonical.Shaped = policy.Verdict{}
	r := fullRequest()
	r.Time = time.Now().In(time.FixedZone("x", 3600))
	v := policytest.Set(t, policytest.Options{Policies: twoApprovers, TwoUsers: true}).Evaluate(run, nil)
	for _, value := range []any{r, &r, v, &v, policy.Request{}, policy.Verdict{}, (*policy.Verdict)(nil), map[string]any{"r": r, "v": []policy.Verdict{v}}} {
		want := must.Get(canonical.Marshal(json.RawMessage(must.Get(json.Marshal(value))(t))))(t)
		if got := must.Get(canonical.Marshal(value))(t); string(got) != string(want) {
			t.Errorf("%T: %s\nwant %s", value, got, want)
		}
	}
}

func TestDigests(t *testing.T) {
	t.Parallel()
	base := policytest.Options{Policies: twoApprovers}
	first := policytest.Set(t, base)
	again := policytest.Set(t, base)
	if first.Version() != again.Version() || first.SnapshotDigest() != again.SnapshotDigest() || first.SchemaDigest() != again.SchemaDigest() {
		t.Error("the same configuration has two digests")
	}
	if canonical.Digest(first.SnapshotJSON()) != first.SnapshotDigest() {
		t.Error("the snapshot's digest is not that of its content")
	}
	canon, err := canonical.Marshal(json.RawMessage(first.SnapshotJSON()))
	if err != nil || string(canon) != string(first.SnapshotJSON()) {
		t.Errorf("the snapshot is not canonical: %v", err)
	}
	var document struct {
		Entities json.RawMessage `json:"entities"`
	}
	var entities types.EntityMap
	must.Do(t, json.Unmarshal(first.SnapshotJSON(), &document))
	must.Do(t, json.Unmarshal(document.Entities, &entities))
	if again := must.Get(canonical.Marshal(entities))(t); len(entities) < 20 || string(again) != string(document.Entities) {
		t.Errorf("the %d entities of the snapshot are not as Cedar's format orders them:\n%s\n%s", len(entities), document.Entities, again)
	}
	changed := map[string]struct {
		options                   policytest.Options
		version, schema, snapshot bool
	}{
		"policy text": {policytest.Options{Policies: twoApprovers + " // note\n" + strings.Replace(onlyConsole, "process.run", "http.fetch", 1)}, true, false, true},
		"a comment":   {policytest.Options{Policies: "// x\n" + twoApprovers}, false, false, false},
		"a tool": {policytest.Options{Policies: twoApprovers, Tools: []tool.Descriptor{
			{Name: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}}}, false, true, true},
		"a member":  {policytest.Options{Policies: twoApprovers, TwoUsers: true}, false, false, true},
		"a role":    {policytest.Options{Policies: twoApprovers, Roles: []access.Role{"security"}}, false, true, true},
		"a setting": {policytest.Options{Policies: twoApprovers, Snapshot: policy.Snapshot{ExecutionTimeoutMS: 5}}, false, false, true},
		"a workspace": {policytest.Options{Policies: twoApprovers, Workspaces: []string{"other"}},
			false, false, true},
	}
	for name, c := range changed {
		s := policytest.Set(t, c.options)
		if (s.Version() != first.Version()) != c.version || (s.SchemaDigest() != first.SchemaDigest()) != c.schema ||
			(s.SnapshotDigest() != first.SnapshotDigest()) != c.snapshot {
			t.Errorf("%s: version, schema, snapshot changed = %v, %v, %v", name,
				s.Version() != first.Version(), s.SchemaDigest() != first.SchemaDigest(), s.SnapshotDigest() != first.SnapshotDigest())
		}
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	text := `@id("no-fetch") forbid(principal, action == Action::"tool.execute/http.fetch", resource);
@id("git") @waives("approval: git only") permit(principal, action == Action::"tool.execute/process.run", resource)
when { context has exec && context.exec.basename == "git" && context.egress.mode == "strict" };`
	caller := policytest.Request("", "").Caller
	set := policytest.Set(t, policytest.Options{Policies: text})
	want := "[{fs.read false} {process.run true}]"
	if got := fmt.Sprint(set.Catalog().Tools(caller)); got != want {
		t.Errorf("catalog %v, want %v", got, want)
	}
	plain := policytest.Set(t, policytest.Options{})
	if got := fmt.Sprint(plain.Catalog().Tools(caller)); got != "[{fs.read false} {http.fetch true} {process.run true}]" {
		t.Errorf("default catalog %v", got)
	}
	stranger := access.Caller{Principal: access.User("zoe")}
	if got := plain.Catalog().Tools(stranger); len(got) != 0 {
		t.Errorf("a stranger sees %v", got)
	}
	for tool, want := range map[string]bool{"fs.read": true, "process.run": true, "http.fetch": false, "fs": false, "zzz": false} {
		if set.Catalog().Lists(caller, tool) != want || plain.Catalog().Lists(stranger, tool) {
			t.Errorf("Lists says something else of %s than Catalog", tool)
		}
	}
	none := policytest.Set(t, policytest.Options{Policies: twoApprovers})
	if got := fmt.Sprint(none.Catalog().Tools(caller)); got != "[{fs.read false} {http.fetch true}]" {
		t.Errorf("with an unattainable approval: %v", got)
	}
}

// The cached catalog of one member is not returned for another, and callers cannot modify it.
func TestCatalogIsRememberedByMember(t *testing.T) {
	t.Parallel()
	member := func(role access.Role) access.Member {
		return access.Member{Principal: access.User("u-" + string(role)), Roles: []access.Role{role}}
	}
	members := []access.Member{member(access.RoleOperator), member(access.RoleAuditor)}
	catalogs := func(set *policy.Set) (list []string) {
		for _, m := range members {
			entries := set.Catalog().Tools(access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal})
			list = append(list, fmt.Sprint(entries))
			clear(entries)
		}
		return list
	}
	set := policytest.Set(t, policytest.Options{Members: members, Policies: `@id("no-fetch")
forbid(principal == User::"u-auditor", action == Action::"tool.execute/http.fetch", resource);`})
	first := catalogs(set)
	if first[0] == first[1] {
		t.Fatalf("the test needs members whose tools differ, both have %s", first[0])
	}
	for range 2 {
		if again := catalogs(set); !slices.Equal(again, first) {
			t.Errorf("first %v, then %v", first, again)
		}
	}
	// Two sets do not share a cache.
	forbidden := policytest.Set(t, policytest.Options{Members: members, Policies: `@id("no") forbid(principal, action, resource);`})
	if none := catalogs(forbidden); !slices.Equal(none, []string{"[]", "[]"}) {
		t.Errorf("where everything is forbidden: %v", none)
	}
}

func TestAccessRoles(t *testing.T) {
	t.Parallel()
	var members []access.Member
	for _, r := range access.BuiltinRoles {
		members = append(members, access.Member{Principal: access.User("u-" + string(r)), Roles: []access.Role{r}})
	}
	members = append(members, access.Member{Principal: access.User("u-security"), Roles: []access.Role{"security"}})
	set := policytest.Set(t, policytest.Options{Members: members, Roles: []access.Role{"security"}})
	table := map[access.Permission]string{
		access.PermToolList:           "owner admin operator auditor developer agent security",
		access.PermDaemonStatus:       "owner admin operator auditor developer agent security",
		access.PermToolCall:           "owner admin operator developer agent",
		access.PermApprovalDecide:     "owner admin operator",
		access.PermApprovalRead:       "owner admin operator auditor",
		access.PermApprovalExport:     "owner admin operator auditor",
		access.PermApprovalGrantBroad: "owner admin",
		access.PermGrantRevoke:        "owner admin operator",
		access.PermGatewayFreeze:      "owner admin operator",
		access.PermJournalRead:        "owner admin operator auditor",
		access.PermJournalExport:      "owner admin auditor",
		access.PermPolicyRead:         "owner admin operator auditor developer",
		"policy.simulate":             "owner admin operator auditor developer",
		access.PermPolicyActivate:     "owner admin",
		access.PermAccessRead:         "owner admin auditor",
		access.PermAccessWrite:        "owner admin",
		access.PermAccessWriteOwner:   "owner",
		access.PermAttestationRead:    "owner admin operator auditor developer",
		"run.start":                   "owner admin operator developer agent",
		"config.read":                 "owner admin auditor",
		"workspace.add":               "owner admin",
		"nothing.such":                "",
		"tool.execute":                "",
	}
	roles := append(slices.Clone(access.BuiltinRoles), "security")
	for permission, want := range table {
		var got []string
		for _, r := range roles {
			j := set.Access().Authorize(policy.AccessRequest{
				Caller: access.Caller{Principal: access.User("u-" + string(r)), Surface: access.SurfaceCLI}, Permission: permission,
			})
			if j.Allowed {
				got = append(got, string(r))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %q", permission, got, want)
		}
	}
}

// A swap is atomic: each verdict is computed from a single set.
func TestSwap(t *testing.T) {
	t.Parallel()
	ask := policytest.Set(t, policytest.Options{})
	allow := policytest.Set(t, policytest.Options{Snapshot: policy.Snapshot{AllowSensitiveTools: true}})
	want := map[string]policy.Effect{ask.SnapshotDigest(): policy.Ask, allow.SnapshotDigest(): policy.Allow}
	engine := policy.NewEngine(ask)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				v, err := engine.Evaluate(t.Context(), run, nil)
				if err != nil || v.Effect() != want[v.SnapshotDigest()] {
					t.Errorf("%v, %v from %s", err, v.Effect(), v.SnapshotDigest())
				}
				engine.Current().Catalog().Tools(run.Caller)
			}
		})
	}
	for range 50 {
		engine.Swap(allow)
		engine.Swap(ask)
	}
	wg.Wait()
}

func TestDefaultsAreClean(t *testing.T) {
	t.Parallel()
	for _, f := range policytest.Set(t, policytest.Options{}).Findings() {
		if f.Code != finding.CodeOpaque {
			t.Errorf("%s", f)
		}
	}
	if _, err := policy.Load(policy.Config{}); err != nil {
		t.Errorf("with nothing configured: %v", err)
	}
}
