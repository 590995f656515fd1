package clitest

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

func serveMembers(f *Gateway) {
	on(f, func(req *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
		return &palyrav1.ListMembersResponse{Members: slices.DeleteFunc(f.members(), func(m *palyrav1.Member) bool {
			return m.GetRemovedAt() != nil && !req.GetRemoved()
		})}, nil
	})
	onMember[*palyrav1.UpdateMemberResponse](f, func(req *palyrav1.UpdateMemberRequest, m *palyrav1.Member) {
		m.Roles = slices.DeleteFunc(m.Roles, func(r string) bool { return slices.Contains(req.GetRemoveRoles(), r) })
		m.Roles, m.Owner = append(m.Roles, req.GetAddRoles()...), cmp.Or(req.GetOwner(), m.GetOwner())
	})
	onMember[*palyrav1.DisableMemberResponse](f, func(_ *palyrav1.DisableMemberRequest, m *palyrav1.Member) { m.Disabled, m.Decides = true, false })
	onMember[*palyrav1.ConfirmMemberResponse](f, func(_ *palyrav1.ConfirmMemberRequest, m *palyrav1.Member) { m.InHandsOf = nil })
	onMember[*palyrav1.ConsentToAgentResponse](f, func(req *palyrav1.ConsentToAgentRequest, m *palyrav1.Member) { m.AwaitsConsent = req.GetWithdraw() })
	onMember[*palyrav1.EnableMemberResponse](f, func(_ *palyrav1.EnableMemberRequest, m *palyrav1.Member) { m.Disabled = false })
	onMember[*palyrav1.RemoveMemberResponse](f, func(_ *palyrav1.RemoveMemberRequest, m *palyrav1.Member) {
		m.Disabled, m.Decides, m.RemovedAt = true, false, now
	})
}

// onMember answers requests of type Q, whose first field names a member, with the changed member,
// unless the change causes a loss that was not accepted. Field 1 of A is the member.
func onMember[A, Q proto.Message](f *Gateway, edit func(Q, *palyrav1.Member)) {
	on(f, func(req Q) (res A, err error) {
		name := firstField(req)
		for _, m := range f.members() {
			if p := m.GetPrincipal(); p != name && p != "user:"+name && p != "agent:"+name {
				continue
			}
			if l, can := any(req).(interface{ GetAcceptLoss() bool }); can && f.Loss != "" && !l.GetAcceptLoss() {
				return res, f.lossError()
			}
			edit(req, m)
			f.ChangedMembers = append(f.ChangedMembers, m.GetPrincipal())
			out := res.ProtoReflect().New()
			out.Set(out.Descriptor().Fields().ByNumber(1), protoreflect.ValueOfMessage(m.ProtoReflect()))
			res, _ = out.Interface().(A) // the assertion always succeeds
			return res, nil
		}
		return res, notFound("the member %s does not exist", name)
	})
}

// members returns the members. The caller holds Mu.
func (f *Gateway) members() []*palyrav1.Member {
	members := []*palyrav1.Member{
		{Principal: "agent:claude", Owner: "user:ada", Roles: []string{"agent"}, CreatedAt: now},
		{Principal: "user:ada", Roles: []string{"owner", "security"}, CreatedAt: now, Decides: true},
	}
	if f.Several {
		members = append(members, &palyrav1.Member{Principal: "user:bob", Roles: []string{"operator"}, CreatedAt: now, Decides: true})
	}
	return members
}

// lossError returns the error of a change whose loss was not accepted.
func (f *Gateway) lossError() error { return reason.Errorf(reason.LossNotAccepted, "%s", f.Loss) }
