package clitest

import (
	"cmp"
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

func (f *Gateway) serveMembers() {
	on(f, func(req *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
		return &palyrav1.ListMembersResponse{Members: slices.DeleteFunc(f.members(), func(m *palyrav1.Member) bool {
			return m.GetRemovedAt() != nil && !req.GetRemoved()
		})}, nil
	})
	on(f, func(req *palyrav1.UpdateMemberRequest) (*palyrav1.UpdateMemberResponse, error) {
		m, err := f.changeMember(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) {
			m.Roles = slices.DeleteFunc(m.Roles, func(r string) bool { return slices.Contains(req.GetRemoveRoles(), r) })
			m.Roles, m.Owner = append(m.Roles, req.GetAddRoles()...), cmp.Or(req.GetOwner(), m.GetOwner())
		})
		return &palyrav1.UpdateMemberResponse{Member: m}, err
	})
	on(f, func(req *palyrav1.DisableMemberRequest) (*palyrav1.DisableMemberResponse, error) {
		m, err := f.changeMember(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) { m.Disabled, m.Decides = true, false })
		return &palyrav1.DisableMemberResponse{Member: m}, err
	})
	on(f, func(req *palyrav1.ConfirmMemberRequest) (*palyrav1.ConfirmMemberResponse, error) {
		m, err := f.changeMember(req.GetMember(), true, func(m *palyrav1.Member) { m.InHandsOf = nil })
		return &palyrav1.ConfirmMemberResponse{Member: m}, err
	})
	on(f, func(req *palyrav1.ConsentToAgentRequest) (*palyrav1.ConsentToAgentResponse, error) {
		m, err := f.changeMember(req.GetAgent(), true, func(m *palyrav1.Member) { m.AwaitsConsent = req.GetWithdraw() })
		return &palyrav1.ConsentToAgentResponse{Member: m}, err
	})
	on(f, func(req *palyrav1.EnableMemberRequest) (*palyrav1.EnableMemberResponse, error) {
		m, err := f.changeMember(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) { m.Disabled = false })
		return &palyrav1.EnableMemberResponse{Member: m}, err
	})
	on(f, func(req *palyrav1.RemoveMemberRequest) (*palyrav1.RemoveMemberResponse, error) {
		m, err := f.changeMember(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) { m.Disabled, m.Decides, m.RemovedAt = true, false, now })
		return &palyrav1.RemoveMemberResponse{Member: m}, err
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

// changeMember returns a changed member, unless the change causes a loss that was not accepted. The caller
// holds Mu.
func (f *Gateway) changeMember(name string, accept bool, edit func(*palyrav1.Member)) (*palyrav1.Member, error) {
	for _, m := range f.members() {
		if p := m.GetPrincipal(); p != name && p != "user:"+name && p != "agent:"+name {
			continue
		}
		if f.Loss != "" && !accept {
			return nil, f.lossError()
		}
		edit(m)
		f.ChangedMembers = append(f.ChangedMembers, m.GetPrincipal())
		return m, nil
	}
	return nil, notFound("the member %s does not exist", name)
}

// lossError returns the error of a change whose loss was not accepted.
func (f *Gateway) lossError() error { return reason.Errorf(reason.LossNotAccepted, "%s", f.Loss) }
