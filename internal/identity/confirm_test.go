package identity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
)

// controllers returns the members that control a member.
func (w *world) controllers(p access.Principal) string {
	var names []string
	for _, by := range w.Directory.History().Controllers()[p] {
		names = append(names, by.Name)
	}
	return strings.Join(names, " ")
}

// The history of members contains every change of a member with its author, whatever made it.
// Renewals, names and revocations are not in it.
func TestHistoryOfMembers(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"roles given", func() error {
			_, err := w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleAuditor}})
			return err
		}, "changed user:bob by user:alice"},
		{"disabled", func() error {
			_, err := w.Members.DisableMember(t.Context(), access.User("alice"), identity.Standing{Member: "bob", AcceptLoss: true})
			return err
		}, "changed user:bob by user:alice"},
		{"enabled", func() error {
			_, err := w.Members.EnableMember(t.Context(), access.User("alice"), identity.Standing{Member: "bob", AcceptLoss: true})
			return err
		}, "changed user:bob by user:alice"},
		{"another owner", func() error {
			_, err := w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "helper", Owner: access.User("carol")})
			return err
		}, "changed agent:helper by user:alice"},
		{"a device", func() error {
			_, err := w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t), AcceptLoss: true})
			return err
		}, "device user:bob by user:local"},
		{"a member", func() error {
			_, err := w.Members.AddMember(t.Context(), access.User("alice"), "zoe", access.KindUser, []access.Role{access.RoleAuditor}, access.Principal{}, csr(t), true)
			return err
		}, "made user:zoe by user:alice"},
		{"a renewal", func() error {
			_, err := w.Certificates.Renew(t.Context(), made["bob"].Device.ID, "", csr(t))
			return err
		}, ""},
		{"another name", func() error {
			_, err := w.Devices.RenameDevice(t.Context(), access.User("alice"), made["bob"].Device.ID, "laptop")
			return err
		}, ""},
		{"a revocation", func() error {
			_, err := w.Devices.Revoke(t.Context(), access.User("alice"), made["bob"].Device.ID, "", true)
			return err
		}, ""},
		{"a confirmation", func() error {
			_, err := w.Confirmations.ConfirmMember(t.Context(), access.User("adam"), "bob")
			return err
		}, "confirmed user:bob by user:adam"},
		{"a confirmation by the host", func() error {
			_, err := w.Confirmations.ConfirmMember(t.Context(), identity.Daemon(), "user:bob")
			return err
		}, "confirmed user:bob by "},
	} {
		before := len(w.Directory.History())
		must.Do(t, step.do())
		var got []string
		for _, act := range w.Directory.History()[before:] {
			var by []string
			for _, p := range act.By {
				by = append(by, p.String())
			}
			got = append(got, string(act.Kind)+" "+act.Member.String()+" by "+strings.Join(by, ","))
		}
		if strings.Join(got, "; ") != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	kept := w.Directory.History()
	w.restart()
	if again := w.Directory.History(); len(again) != len(kept) {
		t.Errorf("%d acts after a start, %d before", len(again), len(kept))
	}
}

// TestMemberCreatedOnTheHost: a member created on the host was created by the holder of the host's
// own device.
func TestMemberCreatedOnTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	if got := w.controllers(identity.Local()); got != "" {
		t.Errorf("the first member is in hands of %s", got)
	}
	w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	if got := w.controllers(access.User("bob")); got != "local" {
		t.Errorf("a member that the host made is in hands of %q", got)
	}
	must.Get(w.Confirmations.ConfirmMember(t.Context(), identity.Daemon(), "bob"))(t)
	if got := w.controllers(access.User("bob")); got != "" {
		t.Errorf("confirmed, it is in hands of %s", got)
	}
	if got := w.Notices.Confirmed(); !slices.Equal(got, []access.Principal{access.User("bob")}) {
		t.Errorf("told of %v", got)
	}
	w.pass(8 * 24 * time.Hour)
	if got := w.Notices.Confirmed(); len(got) != 0 {
		t.Errorf("told of %v after eight days", got)
	}
}

// If the host's own device is revoked and replaced as docs/identity.md describes, its user
// still counts as the holder of the host. That user controls the members created there.
func TestMemberCreatedOnTheHostWithoutItsDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local := w.start()
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), local.ID, "", true))(t)
	must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "local", Request: csr(t), AcceptLoss: true}))(t)
	for _, name := range []string{"bob", "carol"} {
		w.add(access.User(name), access.Principal{}, access.RoleOperator)
		if got := w.controllers(access.User(name)); got != "local" {
			t.Errorf("%s is in hands of %q", name, got)
		}
	}
	w.restart()
	if n := w.Directory.History().Controllers().Independence().Count(identity.Local(), []access.Principal{access.User("bob"), access.User("carol")}); n != 0 {
		t.Errorf("two that the owner made on the host are %d people for a call of the owner", n)
	}
}

// TestInvalidConfirmations: a confirmation of oneself, or of a removed member, does not count.
func TestInvalidConfirmations(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	if _, err := w.Confirmations.ConfirmMember(t.Context(), access.User("alice"), "alice"); err == nil || !strings.Contains(err.Error(), "members cannot confirm themselves") {
		t.Errorf("alice of alice: %v", err)
	}
	must.Get(w.Members.AddMember(t.Context(), access.User("alice"), "zoe", access.KindUser, []access.Role{access.RoleAuditor}, access.Principal{}, csr(t), true))(t)
	must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), identity.Standing{Member: "zoe", AcceptLoss: true}))(t)
	_, err := w.Confirmations.ConfirmMember(t.Context(), access.User("adam"), "zoe")
	reasontest.Want(t, "one that was removed", err, reason.NotFound)
}

func TestWhoConfirms(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	must.Get(w.Members.AddMember(t.Context(), access.User("alice"), "zoe", access.KindUser, []access.Role{access.RoleAuditor}, access.Principal{}, csr(t), true))(t)
	n := len(w.store.Events())
	for name, c := range map[string]struct {
		by   access.Principal
		who  string
		want reason.Code
	}{
		"itself":                  {access.User("alice"), "alice", reason.PermissionDenied},
		"an operator":             {access.User("bob"), "carol", reason.PermissionDenied},
		"an agent":                {access.Agent("helper"), "bob", reason.PermissionDenied},
		"nobody":                  {access.User("nobody"), "bob", reason.PermissionDenied},
		"who made it":             {access.User("alice"), "zoe", reason.PermissionDenied},
		"one that is not":         {access.User("alice"), "zed", reason.NotFound},
		"one without a name":      {access.User("alice"), "user:", reason.InvalidInput},
		"the host, for no member": {identity.Daemon(), "zed", reason.NotFound},
	} {
		_, err := w.Confirmations.ConfirmMember(t.Context(), c.by, c.who)
		reasontest.Want(t, name, err, c.want)
	}
	w.journaled(n)
	must.Get(w.Confirmations.ConfirmMember(t.Context(), access.User("adam"), "zoe"))(t)
	w.journaled(n, event.MembersConfirmed)
}
