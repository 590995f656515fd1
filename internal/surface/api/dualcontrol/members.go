// Package dualcontrol requires the approval of a second person for changes of the gateway. It wraps
// the services of members, policies and the freeze for the API handlers. The rules for who may
// answer are in package palyra/internal/call/dualcontrol.
package dualcontrol

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/provenance"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/changetable"
)

// propose makes a change through the gate. It sets response headers that name the approval, or the
// reason why one person was enough. A request with changetable.WaitHeader returns once the question
// is stored.
func propose[T any](ctx context.Context, gate *dualcontrol.Gate, by access.Caller, plan dualcontrol.Planner) (made T, err error) {
	info, called := connect.CallInfoForHandlerContext(ctx)
	wait := !called || info.RequestHeader().Get(changetable.WaitHeader) != changetable.NoWait
	word, err := gate.Change(ctx, by, wait, plan)
	if err != nil {
		return made, err
	}
	if called && word.ApprovalID != "" {
		info.ResponseHeader().Set(changetable.ApprovalHeader, word.ApprovalID)
	}
	if called && word.AloneBecause != "" {
		info.ResponseHeader().Set(changetable.AloneHeader, word.AloneBecause)
	}
	made, _ = word.Result.(T)
	return made, nil
}

// Members are members whose changes require a second person.
type Members struct {
	api.Members
	Gate *dualcontrol.Gate
}

// Add adds a member. A caller that disconnected while the change waited receives the credential by
// repeating the request.
func (m Members) Add(ctx context.Context, by access.Caller, n api.NewMember) (api.Credential, error) {
	if made, added, err := m.Collect(ctx, by, n); added {
		return made, err
	}
	title := fmt.Sprintf("Add %s:%s with %s", n.Kind, n.Name, roles(n.Roles))
	return changeMembers(ctx, m.Gate, m.List, change.AddMember, title, func(ctx context.Context) (api.Credential, error) {
		return m.Members.Add(ctx, by, n)
	})
}

// UpdateMember changes the roles of a member, or the owner of an agent.
func (m Members) UpdateMember(ctx context.Context, by access.Principal, c identity.MemberChange) (access.Member, error) {
	return changeMembers(ctx, m.Gate, m.List, change.UpdateMember, "Change "+c.Member, func(ctx context.Context) (access.Member, error) {
		return m.Members.UpdateMember(ctx, by, c)
	})
}

// EnableMember enables a disabled member.
func (m Members) EnableMember(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error) {
	return changeMembers(ctx, m.Gate, m.List, change.EnableMember, "Enable "+s.Member, func(ctx context.Context) (access.Member, error) {
		return m.Members.EnableMember(ctx, by, s)
	})
}

// ConfirmMember confirms the identity of a member.
func (m Members) ConfirmMember(ctx context.Context, by access.Principal, name string) (access.Member, error) {
	return changeMembers(ctx, m.Gate, m.List, change.ConfirmMember, "Confirm that "+name+" is an independent person", func(ctx context.Context) (access.Member, error) {
		return m.Members.ConfirmMember(ctx, by, name)
	})
}

// RemoveMember removes a member permanently.
func (m Members) RemoveMember(ctx context.Context, by access.Principal, s identity.Standing) (identity.Removal, error) {
	return changeMembers(ctx, m.Gate, m.List, change.RemoveMember, "Remove "+s.Member+" permanently", func(ctx context.Context) (identity.Removal, error) {
		return m.Members.RemoveMember(ctx, by, s)
	})
}

// DeviceAdmin changes devices whose addition requires a second person.
type DeviceAdmin struct {
	api.DeviceAdmin
	// Members returns all members.
	Members func() []access.Member
	Gate    *dualcontrol.Gate
}

// AddDevice adds a device to a member.
func (d DeviceAdmin) AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (api.Credential, error) {
	return changeMembers(ctx, d.Gate, d.Members, change.AddDevice, "Give "+r.Member+" another device", func(ctx context.Context) (api.Credential, error) {
		return d.DeviceAdmin.AddDevice(ctx, by, r)
	})
}

// changeMembers makes a change of members or devices through the gate. A rehearsal of the change
// determines its details. list returns all members.
func changeMembers[T any](ctx context.Context, gate *dualcontrol.Gate, list roster, kind change.Kind, title string, apply func(context.Context) (T, error)) (T, error) {
	needs := access.PermAccessWrite
	if kind == change.AddDevice {
		needs = access.PermAccessWriteOwner
	}
	return propose[T](ctx, gate, api.CallerOf(ctx), func(ctx context.Context) (*dualcontrol.Plan, error) {
		planned, err := identity.Rehearse(ctx, func(ctx context.Context) error {
			_, err := apply(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		p := &dualcontrol.Plan{Kind: kind, Needs: needs, Nothing: planned == nil}
		p.Make = func(ctx context.Context) (any, error) { return apply(ctx) }
		if planned == nil {
			return p, nil
		}
		d := list.details(*planned)
		if list.needsOwner(d) {
			p.Needs = access.PermAccessWriteOwner
		}
		p.Question = dualcontrol.Question{
			ID: string(kind) + ":" + d.subject(), Title: title, Summary: d.summary(title), Details: d, Rule: dualcontrol.Rule{Owner: list.concernsOwners(d)},
		}
		return p, nil
	})
}

// roster returns all members.
type roster func() []access.Member

// details are the changes of members and devices, without values that differ on each attempt: times
// and new ids.
type details struct {
	Members   []memberDetail     `json:"members,omitempty"`
	Devices   []deviceDetail     `json:"devices,omitempty"`
	Revoked   []string           `json:"revoked_devices,omitempty"`
	Confirmed []access.Principal `json:"confirmed,omitempty"`
}

type memberDetail struct {
	Principal access.Principal `json:"principal"`
	New       bool             `json:"new,omitempty"`
	Roles     []access.Role    `json:"roles"`
	WasRoles  []access.Role    `json:"was_roles,omitempty"`
	Owner     access.Principal `json:"owner,omitzero"`
	WasOwner  access.Principal `json:"was_owner,omitzero"`
	Disabled  bool             `json:"disabled,omitempty"`
	Removed   bool             `json:"removed,omitempty"`
}

// deviceDetail is a new device, identified by its key.
type deviceDetail struct {
	Principal access.Principal `json:"principal"`
	KeySHA256 string           `json:"key_sha256"`
}

func (r roster) details(c identity.Change) (d details) {
	for _, n := range c.NewMembers {
		d.Members = append(d.Members, memberDetail{Principal: n.Principal, New: true, Roles: n.Roles, Owner: n.Owner})
	}
	for _, n := range c.Members {
		was := r.member(n.Principal)
		d.Members = append(d.Members, memberDetail{
			Principal: n.Principal, Roles: n.Roles, WasRoles: was.Roles, Owner: n.Owner, WasOwner: was.Owner, Disabled: n.Disabled, Removed: n.Removed(),
		})
	}
	for _, n := range c.NewDevices {
		d.Devices = append(d.Devices, deviceDetail{n.Principal, n.KeySHA256})
	}
	for _, n := range c.Devices {
		d.Revoked = append(d.Revoked, n.ID)
	}
	slices.Sort(d.Revoked)
	for _, act := range c.Acts {
		if act.Kind == provenance.Confirmed {
			d.Confirmed = append(d.Confirmed, act.Member)
		}
	}
	return d
}

func (r roster) member(p access.Principal) access.Member {
	for _, known := range r() {
		if known.Principal == p {
			return known
		}
	}
	return access.Member{}
}

// members returns the members that the change concerns.
func (d details) members() (list []access.Principal) {
	for _, n := range d.Members {
		list = append(list, n.Principal)
	}
	for _, n := range d.Devices {
		list = append(list, n.Principal)
	}
	list = append(list, d.Confirmed...)
	slices.SortFunc(list, func(a, b access.Principal) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(list)
}

func (d details) subject() string {
	var names []string
	for _, p := range d.members() {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

// summary describes the change in one sentence.
func (d details) summary(title string) string {
	for _, n := range d.Members {
		switch {
		case !n.New && !slices.Equal(n.Roles, n.WasRoles):
			return fmt.Sprintf("%s: %s has %s and would have %s.", title, n.Principal, roles(n.WasRoles), roles(n.Roles))
		case !n.New && n.Owner != n.WasOwner:
			return fmt.Sprintf("%s: the owner of %s is %s and would be %s.", title, n.Principal, n.WasOwner, n.Owner)
		}
	}
	if len(d.Revoked) > 0 {
		return fmt.Sprintf("%s; devices that would be revoked: %d.", title, len(d.Revoked))
	}
	return title + "."
}

func roles(list []access.Role) string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = string(r)
	}
	if len(names) == 1 {
		return "the role " + names[0]
	}
	return "the roles " + strings.Join(names, ", ")
}

func powerful(list []access.Role) bool {
	return slices.Contains(list, access.RoleOwner) || slices.Contains(list, access.RoleAdmin)
}

// needsOwner reports whether the change requires the permission access.write_owner, by the same
// rule as the handlers. It does if owners or admins are added or changed, or become the owner
// of another agent.
func (r roster) needsOwner(d details) bool {
	return slices.ContainsFunc(d.Members, func(n memberDetail) bool {
		return powerful(n.Roles) || powerful(n.WasRoles) || !n.New && n.Owner != n.WasOwner && powerful(r.member(n.Owner).Roles)
	})
}

// concernsOwners reports whether owners or admins are added, changed, or get a device. An agent of
// an owner or admin counts as well, because it acts on their behalf.
func (r roster) concernsOwners(d details) bool {
	for _, p := range d.members() {
		if known := r.member(p); powerful(known.Roles) || powerful(r.member(known.Owner).Roles) {
			return true
		}
	}
	for _, n := range d.Members {
		if powerful(n.Roles) || powerful(r.member(n.Owner).Roles) {
			return true
		}
	}
	return false
}
