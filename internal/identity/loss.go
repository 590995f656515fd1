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
func (s *Service) accepted(loss string, accept bool) error {
	if loss == "" || accept {
		return nil
	}
	return reason.Errorf(reason.LossNotAccepted, "%s", loss)
}

// lossOfAdding describes the loss caused by a member that is added, or reachable again.
func (s *Service) lossOfAdding(m access.Member) string {
	before := s.registry.List()
	after := slices.DeleteFunc(slices.Clone(before), func(other access.Member) bool { return other.Principal == m.Principal })
	lost := losses(before, append(after, m))
	if lost == "" {
		return ""
	}
	return fmt.Sprintf("%s (the way back: `palyra members disable %s`)", lost, m.Principal)
}

// lossOfRevoking describes the loss caused by revoking a device.
func (s *Service) lossOfRevoking(dev Device) string {
	if dev.Revoked() || s.bound(dev.Principal) || slices.ContainsFunc(s.Devices(), func(d Device) bool {
		return d.Principal == dev.Principal && d.ID != dev.ID && !d.Revoked()
	}) {
		return ""
	}
	before := s.registry.List()
	after := slices.Clone(before)
	for i := range after {
		if after[i].Principal == dev.Principal {
			after[i].NoDevice = true
		}
	}
	lost := losses(before, after)
	if lost == "" {
		return ""
	}
	return fmt.Sprintf("%s (the way back: `palyrad operator bundle %s` on the gateway's host)", lost, dev.Principal.Name)
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
