package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/people"
)

type memberList []access.Member

func (l memberList) Members(context.Context) ([]access.Member, error) { return l, nil }

func (l memberList) List() []access.Member { return l }

type silent struct{}

func (silent) Refused(context.Context, string, string, reason.Code)        {}
func (silent) Exported(context.Context, access.Caller, string) error       { return nil }
func (silent) Allow(limit.Class, ...string) (ok bool, after time.Duration) { return true, 0 }
func (silent) AllowStranger(limit.Class, ...string) (ok bool, after time.Duration) {
	return true, 0
}

// everyRole returns members with each role, with none, and with each pair of roles, disabled
// and removed members, and agents of owners that are disabled or unknown.
func everyRole() memberList {
	off := access.User("off")
	list := memberList{
		{Principal: access.User("alice"), Roles: []access.Role{access.RoleOwner}},
		{Principal: access.Agent("coder"), Owner: access.User("alice"), Roles: []access.Role{access.RoleAgent}},
		{Principal: off, Roles: []access.Role{access.RoleOwner}, Disabled: true},
		{Principal: access.Agent("of-off"), Owner: off, Roles: []access.Role{access.RoleAgent}},
		{Principal: access.Agent("of-nobody"), Owner: access.User("nobody"), Roles: []access.Role{access.RoleAgent}},
		{Principal: access.User("gone"), Roles: []access.Role{access.RoleAdmin}, Disabled: true, RemovedAt: policytest.Now},
		{Principal: access.User("none")},
		{Principal: access.Agent("secured"), Owner: access.User("alice"), Roles: []access.Role{"security"}},
	}
	roles := append([]access.Role{"security"}, access.BuiltinRoles...)
	for i, a := range roles {
		for _, b := range roles[i:] {
			if a.For(access.KindUser) && b.For(access.KindUser) {
				list = append(list, access.Member{Principal: access.User(fmt.Sprintf("%s-%s", a, b)), Roles: []access.Role{a, b}})
			}
		}
	}
	return list
}

// TestExplainAgreesWithTheGuard: for every method and member, the review reports "allowed" exactly
// if the guard accepts the request. Each permission is evaluated once per member, and methods with
// the same permission have the same result.
func TestExplainAgreesWithTheGuard(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string]string{
		"default": "",
		"others": `@id("no-export") @reason("no copies") forbid(principal, action == Action::"journal.export", resource) unless { principal in Role::"owner" };
@id("security-reads") permit(principal in Role::"security", action in [Action::"journal.read", Action::"approval.decide"], resource);
@id("not-dev") forbid(principal == User::"developer-developer", action in [Action::"tool.call", Action::"daemon.status"], resource);
@id("paired") forbid(principal, action == Action::"access.write", resource) unless { context.paired };`,
	} {
		members := everyRole()
		set := must.Get(policy.Load(policy.Config{Members: members, Roles: []access.Role{"security"}, Sources: sources(policies)}))(t)
		registry := must.Get(access.NewRegistry(t.Context(), members, []access.Role{"security"}))(t)
		engine := policy.NewEngine(set)
		g := &guard{engine: engine, limiter: silent{}, audit: silent{}}
		asker, _ := registry.Get(access.User("alice"))
		review := &people.ReviewService{Engine: engine, Members: members, Methods: reviewed(), Caller: func(context.Context) access.Caller {
			return access.Caller{Principal: asker.Principal, OnBehalfOf: asker.Principal, Roles: asker.Roles, Paired: true}
		}}
		allowed, denied := 0, 0
		sample := members[1]
		for _, m := range members {
			who := peer{}
			// As in package identity, only active members are authenticated.
			if _, who.known = registry.Active(m.Principal); who.known {
				who.caller = access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, DeviceID: "01JNTESTDEVICE0000000000000", Surface: access.SurfaceGRPC, Paired: true}
				if !m.Owner.IsZero() {
					who.caller.OnBehalfOf = m.Owner
				}
			}
			ctx := context.WithValue(t.Context(), callerKey{}, who)
			explain := func(name string) *palyrav1.ExplainAccessResponse {
				return must.Get(review.ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: m.Principal.String(), Method: name}))(t)
			}
			asked := map[access.Permission]*palyrav1.ExplainAccessResponse{}
			for procedure, row := range methods {
				res := asked[row.Permission]
				if res == nil || row.Permission == "" || m.Principal == sample.Principal {
					res = explain(procedure)
				}
				if first := asked[row.Permission]; first != nil && row.Permission != "" && !sameAnswer(first, res) {
					t.Errorf("%s: %s and %s: the review says %v, and of another method with %s %v", name, m.Principal, procedure, res, row.Permission, first)
				}
				asked[row.Permission] = res
				refused := g.admit(ctx, procedure)
				if res.GetAllowed() != (refused == nil) || reason.Code(res.GetReason()) != reason.Of(refused) {
					t.Errorf("%s: %s and %s: the review says %v %s, the guard %v", name, m.Principal, procedure, res.GetAllowed(), res.GetReason(), refused)
				}
				if (res.GetRemedy() == "") != res.GetAllowed() || res.GetMessage() == "" || res.GetPermission() != string(row.Permission) {
					t.Errorf("%s: %s and %s: %v", name, m.Principal, procedure, res)
				}
				if res.GetAllowed() {
					allowed++
				} else {
					denied++
				}
			}
		}
		if allowed < 100 || denied < 100 {
			t.Errorf("%s: %d allowed, %d denied: too few to mean much", name, allowed, denied)
		}
	}
}

// sameAnswer compares two answers without their methods.
func sameAnswer(a, b *palyrav1.ExplainAccessResponse) bool {
	one, other := proto.CloneOf(a), proto.CloneOf(b)
	one.Methods, other.Methods = nil, nil
	return proto.Equal(one, other)
}

func sources(text string) []policy.Source {
	if text == "" {
		return nil
	}
	return []policy.Source{{Name: "others.cedar", Text: text}}
}
