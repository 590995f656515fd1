package people_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/surface/api/people"
)

type list []access.Member

func (l list) List() []access.Member { return l }

type noTools struct{}

func (noTools) Descriptors() []tool.Descriptor { return nil }
func (noTools) Unusable(string) error          { return nil }

var methods = []people.Method{
	{Procedure: "/grpc.health.v1.Health/Check", Public: true},
	{Procedure: "/palyra.v1.ApprovalsService/DecideApproval", Permission: access.PermApprovalDecide},
	{Procedure: "/palyra.v1.GatewayService/EndSession", Permission: access.PermToolCall},
	{Procedure: "/palyra.v1.SessionService/EndSession", Permission: access.PermRunCancel},
}

func user(name string, roles ...access.Role) access.Member {
	return access.Member{Principal: access.User(name), Roles: roles}
}

func agent(name, owner string, roles ...access.Role) access.Member {
	return access.Member{Principal: access.Agent(name), Owner: access.User(owner), Roles: roles}
}

func service(t *testing.T, asker access.Principal, members list, policies string) *people.ReviewService {
	t.Helper()
	return &people.ReviewService{
		Engine: policy.NewEngine(load(t, members, policies)), Members: members, Tools: noTools{}, Methods: methods,
		Caller: func(context.Context) access.Caller {
			return access.Caller{Principal: asker, OnBehalfOf: asker, Surface: access.SurfaceGRPC, Paired: true}
		},
	}
}

func load(t *testing.T, members list, policies string) *policy.Set {
	t.Helper()
	cfg := policy.Config{Members: members, Roles: []access.Role{"security"}}
	if policies != "" {
		cfg.Sources = []policy.Source{{Name: "own.cedar", Text: policies}}
	}
	return must.Get(policy.Load(cfg))(t)
}

// TestReviewPermissions: a caller may ask about itself and its agents, and with access.read about
// every member. Other callers cannot distinguish a member from an unknown name.
func TestReviewPermissions(t *testing.T) {
	t.Parallel()
	members := list{user("alice", access.RoleOwner), user("bob", access.RoleOperator), user("eve", access.RoleAuditor),
		user("dan", access.RoleDeveloper), agent("helper", "dan", access.RoleAgent), agent("coder", "alice", access.RoleAgent)}
	alice, bob, eve, dan := access.User("alice"), access.User("bob"), access.User("eve"), access.User("dan")
	for _, row := range []struct {
		asker access.Principal
		of    string
		want  reason.Code
	}{
		{alice, "user:bob", ""}, {alice, "bob", ""}, {alice, "coder", ""}, {alice, "helper", ""}, {alice, "nobody", reason.NotFound},
		{eve, "alice", ""}, {eve, "agent:coder", ""}, {eve, "nobody", reason.NotFound},
		{bob, "bob", ""}, {bob, "alice", reason.PermissionDenied}, {bob, "nobody", reason.PermissionDenied}, {bob, "coder", reason.PermissionDenied},
		{dan, "dan", ""}, {dan, "helper", ""}, {dan, "agent:helper", ""}, {dan, "coder", reason.PermissionDenied}, {dan, "user:helper", reason.PermissionDenied},
		{access.Agent("helper"), "helper", ""}, {access.Agent("helper"), "dan", reason.PermissionDenied},
		{access.User("nobody"), "nobody", reason.PermissionDenied}, {access.User("nobody"), "alice", reason.PermissionDenied},
	} {
		s := service(t, row.asker, members, "")
		_, explained := s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: row.of, Method: "tool.call"})
		_, shown := s.ShowAccess(t.Context(), &palyrav1.ShowAccessRequest{Principal: row.of})
		if reason.Of(explained) != row.want || reason.Of(shown) != row.want {
			t.Errorf("%s about %s: %v and %v, want %q", row.asker, row.of, explained, shown, row.want)
		}
	}
	s := service(t, bob, members, "")
	_, known := s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "alice", Method: "tool.call"})
	_, unknown := s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "nobody", Method: "no.such"})
	if known.Error() != unknown.Error() || reason.Known(known, "").NextStep() != reason.Known(unknown, "").NextStep() {
		t.Errorf("a member is refused with %v, nobody with %v", known, unknown)
	}
}

// TestReviewDisclosure: names of other members require access.read, and policies require
// policy.explain.
func TestReviewDisclosure(t *testing.T) {
	t.Parallel()
	members := list{user("alice", access.RoleOwner), user("bob", access.RoleOperator), agent("coder", "bob", access.RoleAgent)}
	ask := func(asker access.Principal, of string) *palyrav1.ExplainAccessResponse {
		return must.Get(service(t, asker, members, "").ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: of, Method: "policy.activate"}))(t)
	}
	if r := ask(access.User("alice"), "bob"); !slices.Equal(r.GetWhoMay(), []string{"user:alice"}) || !strings.Contains(r.GetRemedy(), "user:alice can give it the role admin") {
		t.Errorf("alice is told %v", r)
	}
	if r := ask(access.User("bob"), "bob"); len(r.GetWhoMay()) > 0 || strings.Contains(r.String(), "alice") {
		t.Errorf("bob is told %v", r)
	}
	if r := ask(access.Agent("coder"), "coder"); len(r.GetPolicies()) > 0 || strings.Contains(r.String(), "alice") || strings.Contains(r.String(), "cedar") {
		t.Errorf("an agent is told %v", r)
	}
	r := must.Get(service(t, access.User("bob"), members, "").ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "bob", Method: "DecideApproval"}))(t)
	if p := r.GetPolicies(); !r.GetAllowed() || len(p) != 1 || p[0].GetPolicyId() != "access.operator" || p[0].GetLine() == 0 || p[0].GetFile() == "" || p[0].GetReason() == "" {
		t.Errorf("bob decides by %v", r)
	}
}

func TestMethodsAreNamed(t *testing.T) {
	t.Parallel()
	s := service(t, access.User("alice"), list{user("alice", access.RoleOwner)}, "")
	for name, row := range map[string]struct {
		permission, says string
		code             reason.Code
	}{
		"approval.decide":                            {permission: "approval.decide"},
		"DecideApproval":                             {permission: "approval.decide"},
		"decideapproval":                             {permission: "approval.decide"},
		"ApprovalsService/DecideApproval":            {permission: "approval.decide"},
		"/palyra.v1.ApprovalsService/DecideApproval": {permission: "approval.decide"},
		"Check":                       {permission: ""},
		"EndSession":                  {code: reason.InvalidInput, says: "GatewayService/EndSession or SessionService/EndSession"},
		"SessionService/EndSession":   {permission: "run.cancel"},
		"DecideAproval":               {code: reason.InvalidInput, says: "Did you mean DecideApproval?"},
		"skill.execute":               {code: reason.InvalidInput},
		"something else altogether x": {code: reason.InvalidInput, says: "docs/reference/access.md"},
	} {
		r, err := s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "alice", Method: name})
		switch {
		case reason.Of(err) != row.code || err == nil && (r.GetPermission() != row.permission || !r.GetAllowed()):
			t.Errorf("%s: %v, %v", name, r, err)
		case err != nil && !strings.Contains(reason.Known(err, "").NextStep(), row.says):
			t.Errorf("%s: %s", name, reason.Known(err, "").NextStep())
		}
	}
}

var (
	addsRole = regexp.MustCompile("^(.*) can give it the role ([a-z]+): `palyra members roles ([a-z:0-9-]+) --add ([a-z]+)`.$")
	asksFor  = regexp.MustCompile(`(?:Ask |or |, )((?:user|agent):[a-z]+)`)
)

// TestRemediesWork: after the steps of a remedy the member has the permission, the named members
// can run the steps, and a role is named wherever one would help.
func TestRemediesWork(t *testing.T) {
	t.Parallel()
	members := list{user("alice", access.RoleOwner), user("ann", access.RoleAdmin), user("bob", access.RoleOperator), user("eve", access.RoleAuditor),
		user("dan", access.RoleDeveloper), user("sec", "security"), agent("coder", "alice", access.RoleAgent), agent("bare", "alice")}
	const own = `@id("no-export") forbid(principal, action == Action::"journal.export", resource) unless { principal in Role::"owner" };
@id("no-freeze") forbid(principal, action == Action::"gateway.freeze", resource);
@id("security-reads") permit(principal in Role::"security", action == Action::"journal.read", resource);`
	for _, policies := range []string{"", own} {
		s := service(t, access.User("alice"), members, policies)
		gave := 0
		for _, m := range members {
			for _, p := range access.Permissions {
				r := must.Get(s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: m.Principal.String(), Method: string(p)}))(t)
				if r.GetAllowed() {
					continue
				}
				after := func(role access.Role) bool { return allowedWith(t, members, policies, m, role, p) }
				given := addsRole.FindStringSubmatch(r.GetRemedy())
				if given == nil {
					for _, role := range append([]access.Role{"security"}, access.BuiltinRoles...) {
						if role.For(m.Principal.Kind) && !strings.Contains(r.GetMessage(), ":") && after(role) {
							t.Errorf("%s and %s: role %s would do, and the remedy is %s", m.Principal, p, role, r.GetRemedy())
						}
					}
					for _, named := range asksFor.FindAllStringSubmatch(r.GetRemedy(), -1) {
						other := must.Get(s.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: named[1], Method: string(p)}))(t)
						if !other.GetAllowed() {
							t.Errorf("%s and %s: %s, who may not", m.Principal, p, r.GetRemedy())
						}
					}
					continue
				}
				gave++
				role := access.Role(given[2])
				if given[3] != m.Principal.String() || given[4] != given[2] || !role.For(m.Principal.Kind) || !after(role) {
					t.Errorf("%s and %s: this does not help: %s", m.Principal, p, r.GetRemedy())
				}
				powerful := m.Holds(access.RoleAdmin) || role == access.RoleOwner || role == access.RoleAdmin
				if want := map[bool]string{true: "user:alice", false: "user:alice or user:ann"}[powerful]; given[1] != want {
					t.Errorf("%s and %s: %s can, and not: %s", m.Principal, p, want, r.GetRemedy())
				}
			}
		}
		if gave < 30 {
			t.Errorf("only %d remedies name a role", gave)
		}
	}
}

func allowedWith(t *testing.T, members list, policies string, m access.Member, role access.Role, p access.Permission) bool {
	t.Helper()
	changed := slices.Clone(members)
	i := slices.IndexFunc(changed, func(one access.Member) bool { return one.Principal == m.Principal })
	changed[i].Roles = append(slices.Clone(m.Roles), role)
	set := load(t, changed, policies)
	return set.Access().Authorize(policy.AccessRequest{Caller: access.Caller{Principal: m.Principal, OnBehalfOf: m.Owner, Surface: access.SurfaceGRPC, Paired: true}, Permission: p}).Allowed
}

// TestReinstatementSteps: a member that is barred gets a step that re-enables it, with a member who can run
// it.
func TestReinstatementSteps(t *testing.T) {
	t.Parallel()
	off := func(m access.Member) access.Member { m.Disabled = true; return m }
	lost := func(m access.Member) access.Member { m.NoDevice = true; return m }
	gone := off(user("gone"))
	gone.RemovedAt = gone.CreatedAt.AddDate(1, 0, 0)
	owner, admin, eve := user("alice", access.RoleOwner), user("ann", access.RoleAdmin), user("eve", access.RoleAuditor)
	for name, row := range map[string]struct {
		members list
		of      string
		want    string
	}{
		"disabled":                {list{owner, admin, eve, off(user("bob", access.RoleOperator))}, "bob", "user:alice or user:ann can enable user:bob: `palyra members enable user:bob`."},
		"a disabled admin":        {list{owner, admin, eve, off(user("bob", access.RoleAdmin))}, "bob", "user:alice can enable user:bob: `palyra members enable user:bob`."},
		"a disabled owner":        {list{owner, eve, off(user("bob", access.RoleOperator)), agent("coder", "bob", access.RoleAgent)}, "coder", "user:alice can enable user:bob: `palyra members enable user:bob`."},
		"no owner":                {list{owner, eve, agent("coder", "bob", access.RoleAgent)}, "coder", "user:alice can give it another owner: `palyra members owner agent:coder USER`."},
		"removed":                 {list{owner, eve, gone}, "gone", "palyra members add NAME"},
		"nobody with a device":    {list{lost(owner), eve, off(user("bob", access.RoleOperator))}, "bob", "`palyrad operator bundle NAME`"},
		"nobody to give the role": {list{lost(owner), eve, user("bob", access.RoleDeveloper)}, "bob", "`palyrad operator bundle NAME`"},
	} {
		r := must.Get(service(t, access.User("eve"), row.members, "").ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: row.of, Method: "approval.decide"}))(t)
		if r.GetAllowed() || !strings.Contains(r.GetRemedy(), row.want) {
			t.Errorf("%s: %v", name, r)
		}
		shown := must.Get(service(t, access.User("eve"), row.members, "").ShowAccess(t.Context(), &palyrav1.ShowAccessRequest{Principal: row.of}))(t)
		for _, p := range shown.GetPermissions() {
			if p.GetPermission() == "approval.decide" && p.GetAllowed() {
				t.Errorf("%s: shown as allowed", name)
			}
		}
	}
	// An agent without a role that decides gets the names of members who decide.
	r := must.Get(service(t, access.User("alice"), list{owner, agent("coder", "alice", access.RoleAgent)}, "").
		ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "coder", Method: "approval.decide"}))(t)
	if !strings.Contains(r.GetRemedy(), "ceiling") || !strings.HasSuffix(r.GetRemedy(), "Ask user:alice.") {
		t.Errorf("an agent is told %s", r.GetRemedy())
	}
}

// TestRolesMatchPolicies: the permissions of roles come from the policy set in force.
func TestRolesMatchPolicies(t *testing.T) {
	t.Parallel()
	members := list{user("alice", access.RoleOwner), user("sec", "security")}
	powers := func(policies string) map[string]*palyrav1.Role {
		res := must.Get(service(t, access.User("alice"), members, policies).ListRoles(t.Context(), &palyrav1.ListRolesRequest{}))(t)
		out := map[string]*palyrav1.Role{}
		for _, r := range res.GetRoles() {
			out[r.GetRole()] = r
		}
		return out
	}
	plain := powers("")
	if len(plain) != len(access.BuiltinRoles)+1 || len(plain["owner"].GetPermissions()) != len(access.Permissions) || !plain["owner"].GetBuiltin() || plain["security"].GetBuiltin() {
		t.Errorf("roles: %v", plain)
	}
	if got := plain["security"].GetPermissions(); !slices.Equal(got, []string{"tool.list", "daemon.status", "access.consent", "vault.list", "vault.put", "vault.get", "vault.delete", "secret.lease"}) || !slices.Equal(plain["security"].GetMembers(), []string{"user:sec"}) {
		t.Errorf("security: %v", plain["security"])
	}
	if slices.Contains(plain["agent"].GetPermissions(), "approval.decide") || !slices.Contains(plain["agent"].GetPermissions(), "tool.call") {
		t.Errorf("agent: %v", plain["agent"])
	}
	other := powers(`@id("s") permit(principal in Role::"security", action == Action::"journal.read", resource);
@id("f") forbid(principal in Role::"admin", action == Action::"policy.activate", resource);`)
	if !slices.Contains(other["security"].GetPermissions(), "journal.read") || slices.Contains(other["admin"].GetPermissions(), "policy.activate") || !slices.Contains(plain["admin"].GetPermissions(), "policy.activate") {
		t.Errorf("with other policies: %v", other)
	}
}
