package identity

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// accepted refuses a change by which a member loses the ability to answer approvals, unless the
// actor accepts the loss. The loss MUST have been displayed to the actor before. The service
// compares the state itself, because an API client could otherwise cause a loss without notice.
func accepted(loss string, accept bool) error {
	if loss == "" || accept {
		return nil
	}
	return reason.Errorf(reason.LossNotAccepted, "%s", loss)
}

// replaceable refuses a change after which no owner can act. It also refuses an unaccepted
// change by which a member loses the ability to answer approvals. back is the command that
// reverts the change, or "".
func replaceable(registry *access.Registry, m access.Member, acceptLoss bool, back string) error {
	before := registry.List()
	after := slices.Clone(before)
	for i := range after {
		if after[i].Principal == m.Principal {
			m.NoDevice = after[i].NoDevice
			after[i] = m
		}
	}
	if owners(after, access.Member.CanVote) == 0 && owners(before, access.Member.CanVote) > 0 ||
		owners(after, enabled) == 0 && owners(before, enabled) > 0 {
		return reason.Errorf(reason.LastOwner, "%s is the last owner who can act", m.Principal)
	}
	lost := losses(before, after)
	if lost == "" {
		return nil
	}
	if back == "" {
		return accepted(lost+" (this cannot be undone: a removed member stays removed)", acceptLoss)
	}
	return accepted(fmt.Sprintf("%s (the way back: %s)", lost, back), acceptLoss)
}

func enabled(m access.Member) bool { return !m.Disabled }

// owners counts the owners for whom can returns true.
func owners(members []access.Member, can func(access.Member) bool) (n int) {
	for _, m := range members {
		if m.Holds(access.RoleOwner) && can(m) {
			n++
		}
	}
	return n
}

// lossOfAdding describes the loss caused by a member that is added, or reachable again.
func lossOfAdding(registry *access.Registry, m access.Member) string {
	before := registry.List()
	after := slices.DeleteFunc(slices.Clone(before), func(other access.Member) bool { return other.Principal == m.Principal })
	lost := losses(before, append(after, m))
	if lost == "" {
		return ""
	}
	return fmt.Sprintf("%s (the way back: `palyra members disable %s`)", lost, m.Principal)
}

// lossOfLogin describes the loss caused by the login of a member as m.
func lossOfLogin(registry *access.Registry, m access.Member) string {
	before := registry.List()
	after := slices.DeleteFunc(slices.Clone(before), func(other access.Member) bool { return other.Principal == m.Principal })
	m.NoDevice = false
	return losses(before, append(after, m))
}

// losses compares the approvers before and after a change. It describes the members that can no
// longer answer approvals, and a change between one approver and several.
func losses(before, after []access.Member) string {
	was, is := deciders(before), deciders(after)
	var lost []string
	for _, p := range was {
		if !slices.Contains(is, p) {
			lost = append(lost, fmt.Sprintf("%s can then answer no approval any more", p))
		}
	}
	switch {
	case len(was) > 0 && len(is) == 0:
		lost = append(lost, "no member is left who can answer approvals")
	case len(was) == 1 && len(is) > 1 && slices.Contains(is, was[0]):
		others := slices.DeleteFunc(slices.Clone(is), func(p string) bool { return p == was[0] })
		lost = append(lost, fmt.Sprintf("%s can then answer for their own calls no longer: %s has to", was[0], strings.Join(others, " or ")))
	case len(was) > 1 && len(is) == 1:
		lost = append(lost, fmt.Sprintf("%s then answers for their own calls, with no second person", is[0]))
	}
	return strings.Join(lost, "; ")
}

func deciders(members []access.Member) []string {
	var list []string
	for _, m := range members {
		if m.Decides() {
			list = append(list, m.Principal.String())
		}
	}
	return list
}
