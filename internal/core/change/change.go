// Package change defines the changes of the gateway that require two people, and the check that
// each operation uses to demand the second approval. Package dualcontrol asks people and issues
// the permits that the check accepts; the operations are in lower packages.
package change

import (
	"context"

	"palyra/internal/core/reason"
)

// Kind is one kind of change that requires two people.
type Kind string

// All kinds. A change that immediately reduces power does not require two people, so that a
// person under attack can act alone: freezing, revoking a device, disabling a member, and
// ending, cancelling or denying a call.
const (
	AddMember       Kind = "member.add"
	UpdateMember    Kind = "member.update"
	EnableMember    Kind = "member.enable"
	RemoveMember    Kind = "member.remove"
	ConfirmMember   Kind = "member.confirm"
	AddDevice       Kind = "device.add"
	ActivatePolicy  Kind = "policy.activate"
	ReloadPolicy    Kind = "policy.reload"
	LetIn           Kind = "ceiling.allow"
	Thaw            Kind = "gateway.thaw"
	AddUpstream     Kind = "upstream.add"
	ApproveUpstream Kind = "upstream.approve"
	UpdateUpstream  Kind = "upstream.update"
	InstallSkill    Kind = "skill.install"
	EnableSkill     Kind = "skill.enable"
	TrustPublisher  Kind = "publisher.trust"
	MapChatUser     Kind = "chat_user.map"
	// UndoChanges undoes changes that were committed to a workspace, while the gateway is frozen.
	// At other times, undoing is a call.
	UndoChanges Kind = "workspace.undo"
	// Erase deletes data that the journal refers to. No operation makes this change yet.
	Erase Kind = "journal.erase"
)

// Kinds lists all kinds.
var Kinds = []Kind{
	AddMember, UpdateMember, EnableMember, RemoveMember, ConfirmMember, AddDevice, ActivatePolicy, ReloadPolicy, LetIn, Thaw, AddUpstream,
	ApproveUpstream, UpdateUpstream, InstallSkill, EnableSkill, TrustPublisher, MapChatUser, UndoChanges, Erase,
}

// Guard returns nil if a request may make a change of a kind now, and otherwise an error with
// the reason. An operation that makes such a change MUST call Check first. The zero Guard
// refuses all changes.
type Guard func(ctx context.Context, kind Kind) error

// Check returns nil if the request may make the change, else an error with reason
// PermitRefused.
func (g Guard) Check(ctx context.Context, kind Kind) error {
	if g == nil {
		return Refused(kind)
	}
	return g(ctx, kind)
}

// Unguarded permits all changes. It is for a state directory without a running palyrad, where
// the administrator of the host acts, and for tests.
func Unguarded(context.Context, Kind) error { return nil }

// Refused returns the error for a change without a permit.
func Refused(kind Kind) error {
	return reason.Errorf(reason.PermitRefused, "the change %s requires the approval of a second person, and none was given for it", kind).
		WithRemedy("Request the change with the `palyra` command or the API, which ask a second person.")
}
