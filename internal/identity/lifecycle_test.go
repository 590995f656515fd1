package identity_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
)

// team is the local owner, alice (owner), adam (admin), bob and carol (operators),
// eve (auditor), and helper, an agent of bob.
func team(t *testing.T) (*world, map[string]identity.Admission) {
	t.Helper()
	w := newWorld(t)
	w.start()
	made := map[string]identity.Admission{}
	for _, m := range []struct {
		name  string
		roles []access.Role
	}{
		{"alice", []access.Role{access.RoleOwner}}, {"adam", []access.Role{access.RoleAdmin}}, {"bob", []access.Role{access.RoleOperator, "security"}},
		{"carol", []access.Role{access.RoleOperator}}, {"eve", []access.Role{access.RoleAuditor}},
	} {
		made[m.name] = w.add(access.User(m.name), access.Principal{}, m.roles...)
	}
	made["helper"] = w.add(access.Agent("helper"), access.User("bob"), access.RoleAgent)
	return w, made
}

func TestRolesGivenAndTaken(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	n := len(w.store.Events())
	m := must.Get(w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{
		Member: "eve", AddRoles: []access.Role{"security", access.RoleDeveloper, "security"}, RemoveRoles: []access.Role{access.RoleAuditor},
	}))(t)
	w.journaled(n, event.MemberChanged)
	payload := string(w.store.Events()[n].Payload)
	if want := []access.Role{access.RoleDeveloper, "security"}; !slices.Equal(m.Roles, want) || !strings.Contains(payload, `"was_roles":["auditor"]`) {
		t.Errorf("roles %v, journaled %s", m.Roles, payload)
	}
	// A change without an effect is not recorded.
	must.Get(w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{
		Member: "user:eve", AddRoles: []access.Role{"security"}, RemoveRoles: []access.Role{access.RoleAuditor},
	}))(t)
	w.journaled(n + 1)
	w.restart()
	if m, _ := w.registry.Get(access.User("eve")); !m.Holds("security") || m.Holds(access.RoleAuditor) {
		t.Errorf("after a restart: %+v", m)
	}
}

func TestAgentGetsAnotherOwner(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	n := len(w.store.Events())
	must.Get(w.Members.UpdateMember(t.Context(), access.User("adam"), identity.MemberChange{Member: "helper", Owner: access.User("carol")}))(t)
	w.journaled(n, event.MemberChanged)
	if c, err := w.Callers.Authenticate(chainOf(made["helper"])); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("before carol consents it acts for %s, %v", c.OnBehalfOf, err)
	}
	must.Do(t, w.consent(access.User("carol"), "helper", false))
	c := must.Get(w.Callers.Authenticate(chainOf(made["helper"])))(t)
	if c.OnBehalfOf != access.User("carol") {
		t.Errorf("it acts for %s", c.OnBehalfOf)
	}
}

// A member may not make changes beyond their own rights, and no change may break an invariant.
// Each refusal leaves the state and the journal unchanged.
func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	none := access.Principal{}
	roles := func(r ...access.Role) []access.Role { return r }
	n := len(w.store.Events())
	for name, x := range map[string]struct {
		actor access.Principal
		c     identity.MemberChange
		want  reason.Code
	}{
		"an admin gives owner":           {access.User("adam"), identity.MemberChange{Member: "eve", AddRoles: roles(access.RoleOwner)}, reason.PermissionDenied},
		"an admin gives admin":           {access.User("adam"), identity.MemberChange{Member: "eve", AddRoles: roles(access.RoleAdmin)}, reason.PermissionDenied},
		"an admin raises themself":       {access.User("adam"), identity.MemberChange{Member: "adam", AddRoles: roles(access.RoleOwner)}, reason.PermissionDenied},
		"an admin takes owner":           {access.User("adam"), identity.MemberChange{Member: "alice", AddRoles: roles(access.RoleAuditor), RemoveRoles: roles(access.RoleOwner)}, reason.PermissionDenied},
		"an admin gives an owner a role": {access.User("adam"), identity.MemberChange{Member: "alice", AddRoles: roles("security")}, reason.PermissionDenied},
		"an agent for an owner":          {access.User("adam"), identity.MemberChange{Member: "helper", Owner: access.User("alice")}, reason.PermissionDenied},
		"an agent for themself":          {access.User("adam"), identity.MemberChange{Member: "helper", Owner: access.User("adam")}, reason.PermissionDenied},
		"an operator":                    {access.User("bob"), identity.MemberChange{Member: "bob", AddRoles: roles(access.RoleAuditor)}, reason.PermissionDenied},
		"an operator asks who there is":  {access.User("bob"), identity.MemberChange{Member: "nobody", AddRoles: roles(access.RoleAuditor)}, reason.PermissionDenied},
		"an agent":                       {access.Agent("helper"), identity.MemberChange{Member: "helper", AddRoles: roles("security")}, reason.PermissionDenied},
		"nobody":                         {none, identity.MemberChange{Member: "eve", AddRoles: roles("security")}, reason.PermissionDenied},
		"an unknown member":              {access.User("alice"), identity.MemberChange{Member: "mallory", AddRoles: roles("security")}, reason.NotFound},
		"no principal":                   {access.User("alice"), identity.MemberChange{Member: "person:x", AddRoles: roles("security")}, reason.InvalidInput},
		"an unknown role":                {access.User("alice"), identity.MemberChange{Member: "eve", AddRoles: roles("root")}, reason.InvalidInput},
		"an unknown role taken":          {access.User("alice"), identity.MemberChange{Member: "eve", RemoveRoles: roles("root")}, reason.InvalidInput},
		"given and taken":                {access.User("alice"), identity.MemberChange{Member: "eve", AddRoles: roles("security"), RemoveRoles: roles("security")}, reason.InvalidInput},
		"the last role":                  {access.User("alice"), identity.MemberChange{Member: "eve", RemoveRoles: roles(access.RoleAuditor)}, reason.InvalidInput},
		"a user as an agent":             {access.User("alice"), identity.MemberChange{Member: "eve", AddRoles: roles(access.RoleAgent)}, reason.InvalidInput},
		"an agent that decides":          {access.User("alice"), identity.MemberChange{Member: "helper", AddRoles: roles(access.RoleOperator)}, reason.InvalidInput},
		"an owner of a user":             {access.User("alice"), identity.MemberChange{Member: "eve", Owner: access.User("bob")}, reason.InvalidInput},
		"an owner that is none":          {access.User("alice"), identity.MemberChange{Member: "helper", Owner: access.User("mallory")}, reason.InvalidInput},
		"an owner that is an agent":      {access.User("alice"), identity.MemberChange{Member: "helper", Owner: access.Agent("helper")}, reason.InvalidInput},
	} {
		x.c.AcceptLoss = true
		_, err := w.Members.UpdateMember(t.Context(), x.actor, x.c)
		reasontest.Want(t, name, err, x.want)
	}
	for name, x := range map[string]struct {
		actor  access.Principal
		member string
		want   reason.Code
	}{
		"of an owner by an admin": {access.User("adam"), "alice", reason.PermissionDenied},
		"of an admin by an admin": {access.User("adam"), "adam", reason.PermissionDenied},
		"by an operator":          {access.User("bob"), "eve", reason.PermissionDenied},
		"of oneself":              {access.User("bob"), "bob", reason.PermissionDenied},
		"by an agent":             {access.Agent("helper"), "bob", reason.PermissionDenied},
		"unknown member":          {access.User("alice"), "mallory", reason.NotFound},
	} {
		st := identity.Standing{Member: x.member, AcceptLoss: true}
		_, err := w.Members.DisableMember(t.Context(), x.actor, st)
		reasontest.Want(t, "disabling "+name, err, x.want)
		_, err = w.Members.EnableMember(t.Context(), x.actor, st)
		reasontest.Want(t, "enabling "+name, err, x.want)
		_, err = w.Members.RemoveMember(t.Context(), x.actor, st)
		reasontest.Want(t, "removing "+name, err, x.want)
	}
	_, err := w.Members.DisableMember(t.Context(), access.User("alice"), identity.Standing{Member: "eve", Reason: strings.Repeat("x", 501)})
	reasontest.Want(t, "a long reason", err, reason.InvalidInput)
	w.journaled(n)
}

func TestDisabledAndEnabled(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	ended := map[string]string{}
	w.OpenWork.OnEnd(func(d identity.Device, why *reason.Error) { ended[d.Principal.String()] = why.Message })
	n := len(w.store.Events())
	st := identity.Standing{Member: "bob", Reason: "on leave", AcceptLoss: true}
	m := must.Get(w.Members.DisableMember(t.Context(), access.User("adam"), st))(t)
	w.journaled(n, event.MemberDisabled)
	if !m.Disabled || len(ended) != 2 || !strings.Contains(ended["agent:helper"], "user:bob was disabled") {
		t.Errorf("%+v, ended %v", m, ended)
	}
	for _, name := range []string{"bob", "helper"} {
		_, err := w.Callers.Authenticate(chainOf(made[name]))
		reasontest.Want(t, name, err, reason.Unauthenticated)
		_, err = w.Certificates.Renew(t.Context(), made[name].Device.ID, "", csr(t))
		reasontest.Want(t, name+" renews", err, reason.Unauthenticated)
	}
	_, err := w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t), AcceptLoss: true})
	reasontest.Want(t, "a device for a disabled member", err, reason.InvalidInput)
	must.Get(w.Members.DisableMember(t.Context(), access.User("adam"), st))(t)
	w.journaled(n + 1)
	w.restart()
	if _, err := w.Callers.Authenticate(chainOf(made["bob"])); err == nil {
		t.Error("a restart enabled it")
	}
	must.Get(w.Members.EnableMember(t.Context(), access.User("adam"), st))(t)
	w.journaled(n+1, event.MemberEnabled)
	for _, name := range []string{"bob", "helper"} {
		if _, err := w.Callers.Authenticate(chainOf(made[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRemoved(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	ended := 0
	w.OpenWork.OnEnd(func(identity.Device, *reason.Error) { ended++ })
	n := len(w.store.Events())
	st := identity.Standing{Member: "bob", AcceptLoss: true}
	_, err := w.Members.RemoveMember(t.Context(), access.User("alice"), st)
	reasontest.Want(t, "with an agent", err, reason.InvalidInput)
	if !strings.Contains(err.Error(), "agent:helper") {
		t.Errorf("%v does not name the agent", err)
	}
	w.journaled(n)
	must.Get(w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "helper", Owner: access.User("carol")}))(t)
	n, ended = len(w.store.Events()), 0
	r := must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), st))(t)
	w.journaled(n, event.DeviceRevoked, event.MemberRemoved)
	if !r.Member.Removed() || !r.Member.Disabled || len(r.Revoked) != 1 || ended != 1 {
		t.Errorf("%+v, %d ended", r, ended)
	}
	// A second removal changes nothing, and a removed member cannot be restored.
	must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), st))(t)
	_, err = w.Members.RemoveMember(t.Context(), access.User("eve"), st)
	reasontest.Want(t, "removing again by an auditor", err, reason.PermissionDenied)
	for range 2 {
		_, err = w.Callers.Authenticate(chainOf(made["bob"]))
		reasontest.Want(t, "its certificate", err, reason.Unauthenticated)
		_, err = w.Members.EnableMember(t.Context(), access.User("alice"), st)
		reasontest.Want(t, "enabling", err, reason.NotFound)
		_, err = w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleAuditor}})
		reasontest.Want(t, "a role", err, reason.NotFound)
		_, err = w.Members.AddMember(t.Context(), identity.Daemon(), "bob", access.KindUser, []access.Role{access.RoleAuditor}, access.Principal{}, csr(t), true)
		reasontest.Want(t, "the name", err, reason.AlreadyExists)
		_, err = w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t)})
		reasontest.Want(t, "a device", err, reason.InvalidInput)
		_, err = w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "helper", Owner: access.User("bob")})
		reasontest.Want(t, "an agent", err, reason.InvalidInput)
		w.restart()
	}
	w.journaled(n + 2)
}

// A removed local operator is not restored by the next start.
func TestRemovedLocalOperatorStaysOut(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), identity.Standing{Member: "local", AcceptLoss: true}))(t)
	w.restart()
	if _, ok, err := w.Local.Start(t.Context(), w.local()); ok || err != nil {
		t.Errorf("it came back: %v, %v", ok, err)
	}
}

// A gateway always has an owner who can act.
func TestLastOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local := w.start()
	refused := func(name string) {
		t.Helper()
		st := identity.Standing{Member: name, AcceptLoss: true}
		_, err := w.Members.DisableMember(t.Context(), identity.Local(), st)
		reasontest.Want(t, "disabling", err, reason.LastOwner)
		_, err = w.Members.RemoveMember(t.Context(), identity.Local(), st)
		reasontest.Want(t, "removing", err, reason.LastOwner)
		_, err = w.Members.UpdateMember(t.Context(), identity.Local(), identity.MemberChange{
			Member: name, AddRoles: []access.Role{access.RoleAdmin}, RemoveRoles: []access.Role{access.RoleOwner}, AcceptLoss: true,
		})
		reasontest.Want(t, "lowering", err, reason.LastOwner)
		var e *reason.Error
		if !errors.As(err, &e) || !strings.Contains(e.NextStep(), "palyra members") {
			t.Errorf("%v does not name the way", err)
		}
	}
	refused("local")
	alice := w.add(access.User("alice"), access.Principal{}, access.RoleOwner)
	// An owner without a device cannot act.
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), alice.Device.ID, "lost", true))(t)
	refused("local")
	must.Get(w.Devices.AddDevice(t.Context(), identity.Local(), local.ID, identity.Recovery{Member: "alice", Request: csr(t), AcceptLoss: true}))(t)
	must.Get(w.Members.DisableMember(t.Context(), identity.Local(), identity.Standing{Member: "alice", AcceptLoss: true}))(t)
	refused("local")
	must.Get(w.Members.EnableMember(t.Context(), identity.Local(), identity.Standing{Member: "alice", AcceptLoss: true}))(t)
	must.Get(w.Members.UpdateMember(t.Context(), identity.Local(), identity.MemberChange{
		Member: "local", AddRoles: []access.Role{access.RoleAuditor}, RemoveRoles: []access.Role{access.RoleOwner}, AcceptLoss: true,
	}))(t)
	_, err := w.Members.DisableMember(t.Context(), identity.Daemon(), identity.Standing{Member: "alice", AcceptLoss: true})
	reasontest.Want(t, "disabling the other, on the host", err, reason.LastOwner)
}

// Each of these changes names the members who can no longer answer approvals, and takes effect
// only after that loss is accepted.
func TestChangesNameTheLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	w.add(access.User("eve"), access.Principal{}, access.RoleAuditor)
	n := len(w.store.Events())
	disable := func(accept bool) error {
		_, err := w.Members.DisableMember(t.Context(), identity.Local(), identity.Standing{Member: "bob", AcceptLoss: accept})
		return err
	}
	wantLoss(t, disable(false), "user:bob can then answer no approval any more", "user:local then answers for their own calls", "palyra members enable user:bob")
	_, err := w.Members.RemoveMember(t.Context(), identity.Local(), identity.Standing{Member: "bob"})
	wantLoss(t, err, "user:bob can then answer no approval any more", "a removed member stays removed")
	_, err = w.Members.UpdateMember(t.Context(), identity.Local(), identity.MemberChange{
		Member: "bob", AddRoles: []access.Role{access.RoleAuditor}, RemoveRoles: []access.Role{access.RoleOperator},
	})
	wantLoss(t, err, "user:bob can then answer no approval any more", "palyra members roles user:bob --add operator --remove auditor")
	w.journaled(n)
	must.Do(t, disable(true))
	_, err = w.Members.EnableMember(t.Context(), identity.Local(), identity.Standing{Member: "bob"})
	wantLoss(t, err, "user:local can then answer for their own calls no longer: user:bob has to", "palyra members disable user:bob")
	_, err = w.Members.UpdateMember(t.Context(), identity.Local(), identity.MemberChange{Member: "eve", AddRoles: []access.Role{access.RoleOperator}})
	wantLoss(t, err, "user:eve has to", "palyra members roles user:eve --remove operator")
	// A change without a loss needs no acceptance.
	must.Get(w.Members.DisableMember(t.Context(), identity.Local(), identity.Standing{Member: "eve"}))(t)
	must.Get(w.Members.RemoveMember(t.Context(), identity.Local(), identity.Standing{Member: "eve"}))(t)
}

// A member's open streams end when the member's rights are reduced, not when rights are added.
func TestChangesEndWhatIsOpen(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	var ended, cut []string
	w.OpenWork.OnEnd(func(d identity.Device, _ *reason.Error) { ended = append(ended, d.Principal.String()) })
	w.OpenWork.OnCut(func(p access.Principal, _ *reason.Error) { cut = append(cut, p.String()) })
	for _, x := range []struct {
		c    identity.MemberChange
		want []string
	}{
		{identity.MemberChange{Member: "eve", AddRoles: []access.Role{"security"}}, nil},
		{identity.MemberChange{Member: "eve", RemoveRoles: []access.Role{"security"}}, []string{"user:eve"}},
		{identity.MemberChange{Member: "helper", Owner: access.User("bob")}, nil},
		{identity.MemberChange{Member: "helper", Owner: access.User("carol")}, []string{"agent:helper"}},
	} {
		ended, cut = nil, nil
		must.Get(w.Members.UpdateMember(t.Context(), access.User("alice"), x.c))(t)
		if !slices.Equal(ended, x.want) || !slices.Equal(cut, x.want) {
			t.Errorf("%+v ended what %v and %v had open, want %v", x.c, ended, cut, x.want)
		}
	}
	// Credentials that are not devices also end with the member.
	cut = nil
	must.Get(w.Members.DisableMember(t.Context(), access.User("alice"), identity.Standing{Member: "carol", AcceptLoss: true}))(t)
	must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), identity.Standing{Member: "eve"}))(t)
	if !slices.Equal(cut, []string{"agent:helper", "user:carol", "user:eve"}) {
		t.Errorf("cut %v", cut)
	}
}

// TestPolicyChangesBeforeStreamsEnd: policy receives a change before the member's streams end, so
// that requests in between are decided with the new state. The streams end also if policy could not
// be updated.
func TestPolicyChangesBeforeStreamsEnd(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	var order []string
	w.OpenWork.OnEnd(func(identity.Device, *reason.Error) { order = append(order, "ended") })
	failed := errors.New("policy does not load")
	w.Directory.OnChange(func(_ context.Context, by access.Principal) error {
		order = append(order, "policy of "+by.String())
		return failed
	})
	for name, change := range map[string]func() error{
		"update": func() error {
			_, err := w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "bob", RemoveRoles: []access.Role{"security"}})
			return err
		},
		"disable": func() error {
			_, err := w.Members.DisableMember(t.Context(), access.User("alice"), identity.Standing{Member: "carol", AcceptLoss: true})
			return err
		},
		"remove": func() error {
			_, err := w.Members.RemoveMember(t.Context(), access.User("alice"), identity.Standing{Member: "eve"})
			return err
		},
	} {
		order = nil
		if err := change(); !errors.Is(err, failed) || !slices.Equal(order, []string{"policy of user:alice", "ended"}) {
			t.Errorf("%s: %v, %v", name, order, err)
		}
	}
}

// A change that the store refuses has no effect.
func TestChangesThatFail(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	full := errors.New("the disk is full")
	st := identity.Standing{Member: "eve"}
	for name, change := range map[string]func() error{
		"update": func() error {
			_, err := w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "eve", AddRoles: []access.Role{"security"}})
			return err
		},
		"disable": func() error { _, err := w.Members.DisableMember(t.Context(), access.User("alice"), st); return err },
		"remove":  func() error { _, err := w.Members.RemoveMember(t.Context(), access.User("alice"), st); return err },
	} {
		w.store.FailNext(full)
		if err := change(); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		m, _ := w.registry.Get(access.User("eve"))
		if _, err := w.Callers.Authenticate(chainOf(made["eve"])); err != nil || m.Disabled || m.Holds("security") {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestConnectionsSurviveUnrelatedChanges: a connection continues as long as its device is valid and
// its permissions are not reduced. It survives added permissions and changes of other members.
func TestConnectionsSurviveUnrelatedChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*world, map[string]identity.Admission) error
		ends   []string
	}{
		"nothing":           {func(*world, map[string]identity.Admission) error { return nil }, nil},
		"a device of eve's": {revoking("eve"), nil},
		"bob's device":      {revoking("bob"), []string{"bob"}},
		"the agent's":       {revoking("helper"), []string{"helper"}},
		"a role is given":   {updating(identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleDeveloper}}), nil},
		"a role is taken":   {updating(identity.MemberChange{Member: "bob", RemoveRoles: []access.Role{"security"}}), []string{"bob"}},
		"another owner":     {updating(identity.MemberChange{Member: "helper", Owner: access.User("carol"), AcceptLoss: true}), []string{"helper"}},
		"bob is disabled": {func(w *world, _ map[string]identity.Admission) error {
			_, err := w.Members.DisableMember(w.t.Context(), access.User("alice"), identity.Standing{Member: "bob", AcceptLoss: true})
			return err
		}, []string{"bob", "helper"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, made := team(t)
			came := map[string]access.Caller{}
			for _, who := range []string{"bob", "helper"} {
				came[who] = must.Get(w.Callers.Authenticate(chainOf(made[who])))(t)
			}
			must.Do(t, c.change(w, made))
			for who, caller := range came {
				err := w.Callers.Stands(caller)
				if ends := slices.Contains(c.ends, who); ends != (err != nil) || ends && reason.Of(err) != reason.Unauthenticated {
					t.Errorf("%s: %v", who, err)
				}
			}
		})
	}
}

func revoking(name string) func(*world, map[string]identity.Admission) error {
	return func(w *world, made map[string]identity.Admission) error {
		_, err := w.Devices.Revoke(w.t.Context(), access.User("alice"), made[name].Device.ID, "lost", true)
		return err
	}
}

func updating(c identity.MemberChange) func(*world, map[string]identity.Admission) error {
	return func(w *world, _ map[string]identity.Admission) error {
		_, err := w.Members.UpdateMember(w.t.Context(), access.User("alice"), c)
		return err
	}
}
