package api

import (
	"context"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/notify"
)

// Members keeps members and their devices.
type Members interface {
	List() []access.Member
	Add(ctx context.Context, by access.Caller, m NewMember) (Credential, error)
	// Collect returns the credential of a member that the caller added with the same key,
	// and that was never used; false where there is none.
	Collect(ctx context.Context, by access.Caller, m NewMember) (Credential, bool, error)
	// What follows is in force, and known to policy, when it returns.
	UpdateMember(ctx context.Context, by access.Principal, c identity.MemberChange) (access.Member, error)
	DisableMember(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error)
	ConfirmMember(ctx context.Context, by access.Principal, name string) (access.Member, error)
	ConsentToAgent(ctx context.Context, by access.Caller, c identity.Consent) (access.Member, error)
	// Waiting are the agents of an owner that wait for consent.
	Waiting(owner access.Principal) []access.Principal
	// Confirmed are the members that the gateway's host confirmed lately.
	Confirmed() []access.Principal
	// History is who made, changed and confirmed the members.
	History() provenance.History
	EnableMember(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error)
	RemoveMember(ctx context.Context, by access.Principal, s identity.Standing) (identity.Removal, error)
	Devices() []identity.Device
	// Binding is who logs in as a member; false for one that does not.
	Binding(p access.Principal) (identity.Binding, bool)
	// LogOut ends the session that a device is.
	LogOut(ctx context.Context, deviceID string) error
	Renew(ctx context.Context, deviceID, byKey string, csr []byte) (Credential, error)
	Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error)
	RenameDevice(ctx context.Context, by access.Principal, deviceID, name string) (identity.Device, error)
	AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (Credential, error)
	// Added are the devices that somebody was given lately, and that a principal has
	// to know of.
	Added(p access.Principal) []identity.Device
	// OldKeys are those of which a replaced key was used lately.
	OldKeys(p access.Principal) []identity.Device
	// PresenceKeys are those whose presence key changed lately, or waits.
	PresenceKeys(p access.Principal) []identity.Device
}

// NewMember is a member to be added.
type NewMember struct {
	Name  string
	Kind  access.Kind
	Roles []access.Role
	Owner access.Principal
	// Request is a PKCS #10 certificate request, PEM.
	Request []byte
	// AcceptLoss says that the caller was told who loses the power to answer
	// approvals.
	AcceptLoss bool
}

// Credential is an issued certificate. Chain and Root are PEM.
type Credential struct {
	Member     access.Member
	Device     identity.Device
	Revoked    []identity.Device
	Chain      string
	Root       string
	ServerName string
}

type members struct {
	admin  Members
	engine *policy.Engine
}

// AddMember adds a user or an agent with its first device.
func (m *members) AddMember(ctx context.Context, req *palyrav1.AddMemberRequest) (*palyrav1.AddMemberResponse, error) {
	owner, err := principalOf(req.GetOwner())
	if err != nil {
		return nil, err
	}
	caller := callerOf(ctx)
	n := NewMember{Name: req.GetName(), Kind: access.Kind(req.GetKind()), Owner: owner, Request: requestPEM(req.GetCertificateRequest()), AcceptLoss: req.GetAcceptLoss()}
	if n.Roles, err = rolesOf(req.GetRoles()); err != nil {
		return nil, err
	}
	if err := m.mayGive(caller, n.Roles); err != nil {
		return nil, err
	}
	c, err := m.admin.Add(ctx, caller, n)
	if err != nil {
		return nil, err
	}
	return &palyrav1.AddMemberResponse{
		Member: memberMessage(c.Member), DeviceId: c.Device.ID, CertificateChain: c.Chain, CaCertificate: c.Root, ServerName: c.ServerName,
	}, nil
}

// mayGive asks policy before a role is given that can give roles.
func (m *members) mayGive(caller access.Caller, roles []access.Role) error {
	for _, r := range roles {
		if r != access.RoleOwner && r != access.RoleAdmin {
			continue
		}
		request := policy.AccessRequest{Caller: caller, Permission: access.PermAccessWriteOwner}
		if err := m.engine.Current().Permit(request); err != nil {
			return err
		}
	}
	return nil
}

// ListMembers lists the members.
func (m *members) ListMembers(_ context.Context, req *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	res := &palyrav1.ListMembersResponse{}
	hands := m.admin.History().Hands()
	for _, member := range m.admin.List() {
		if member.Removed() && !req.GetRemoved() {
			continue
		}
		one := memberMessage(member)
		for _, p := range hands[member.Principal] {
			one.InHandsOf = append(one.InHandsOf, p.String())
		}
		if b, logsIn := m.admin.Binding(member.Principal); logsIn {
			one.LoginIssuer, one.LoginSubject = b.Issuer, b.Subject
		}
		res.Members = append(res.Members, one)
	}
	return res, nil
}

func memberMessage(m access.Member) *palyrav1.Member {
	roles := make([]string, len(m.Roles))
	for i, r := range m.Roles {
		roles[i] = string(r)
	}
	return &palyrav1.Member{
		Principal: m.Principal.String(), Owner: m.Owner.String(), Roles: roles, Disabled: m.Disabled, CreatedAt: timeMessage(m.CreatedAt),
		NoDevice: m.NoDevice, Decides: m.Decides(), RemovedAt: timeMessage(m.RemovedAt),
		AwaitsConsent: m.AwaitsConsent,
	}
}

// UpdateMember gives and takes roles, and gives an agent another owner.
func (m *members) UpdateMember(ctx context.Context, req *palyrav1.UpdateMemberRequest) (*palyrav1.UpdateMemberResponse, error) {
	c := identity.MemberChange{Member: req.GetMember(), AcceptLoss: req.GetAcceptLoss()}
	var err error
	if c.AddRoles, err = rolesOf(req.GetAddRoles()); err != nil {
		return nil, err
	}
	if c.RemoveRoles, err = rolesOf(req.GetRemoveRoles()); err != nil {
		return nil, err
	}
	if c.Owner, err = principalOf(req.GetOwner()); err != nil {
		return nil, err
	}
	caller := callerOf(ctx)
	if err := m.mayTouch(caller, c.Member, c.Owner, slices.Concat(c.AddRoles, c.RemoveRoles)); err != nil {
		return nil, err
	}
	after, err := m.admin.UpdateMember(ctx, caller.Principal, c)
	if err != nil {
		return nil, err
	}
	return &palyrav1.UpdateMemberResponse{Member: memberMessage(after)}, nil
}

// DisableMember keeps a member from acting until it is enabled.
func (m *members) DisableMember(ctx context.Context, req *palyrav1.DisableMemberRequest) (*palyrav1.DisableMemberResponse, error) {
	after, err := m.stand(ctx, req, m.admin.DisableMember)
	if err != nil {
		return nil, err
	}
	return &palyrav1.DisableMemberResponse{Member: memberMessage(after)}, nil
}

// EnableMember lets a disabled member act again.
func (m *members) EnableMember(ctx context.Context, req *palyrav1.EnableMemberRequest) (*palyrav1.EnableMemberResponse, error) {
	after, err := m.stand(ctx, req, m.admin.EnableMember)
	if err != nil {
		return nil, err
	}
	return &palyrav1.EnableMemberResponse{Member: memberMessage(after)}, nil
}

// ConfirmMember says that a member is who it is said to be.
func (m *members) ConfirmMember(ctx context.Context, req *palyrav1.ConfirmMemberRequest) (*palyrav1.ConfirmMemberResponse, error) {
	after, err := m.admin.ConfirmMember(ctx, callerOf(ctx).Principal, req.GetMember())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConfirmMemberResponse{Member: memberMessage(after)}, nil
}

// ConsentToAgent lets an agent act in the caller's name, or no longer.
func (m *members) ConsentToAgent(ctx context.Context, req *palyrav1.ConsentToAgentRequest) (*palyrav1.ConsentToAgentResponse, error) {
	after, err := m.admin.ConsentToAgent(ctx, callerOf(ctx), identity.Consent{Agent: req.GetAgent(), Withdraw: req.GetWithdraw()})
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConsentToAgentResponse{Member: memberMessage(after)}, nil
}

// RemoveMember ends a member for good.
func (m *members) RemoveMember(ctx context.Context, req *palyrav1.RemoveMemberRequest) (*palyrav1.RemoveMemberResponse, error) {
	res := &palyrav1.RemoveMemberResponse{}
	after, err := m.stand(ctx, req, func(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error) {
		r, err := m.admin.RemoveMember(ctx, by, s)
		for _, dev := range r.Revoked {
			res.Revoked = append(res.Revoked, dev.ID)
		}
		return r.Member, err
	})
	if err != nil {
		return nil, err
	}
	res.Member = memberMessage(after)
	return res, nil
}

// standing is a request about whether a member may act.
type standing interface {
	GetMember() string
	GetReason() string
	GetAcceptLoss() bool
}

func (m *members) stand(ctx context.Context, req standing, change func(context.Context, access.Principal, identity.Standing) (access.Member, error)) (access.Member, error) {
	caller := callerOf(ctx)
	if err := m.mayTouch(caller, req.GetMember(), access.Principal{}, nil); err != nil {
		return access.Member{}, err
	}
	return change(ctx, caller.Principal, identity.Standing{Member: req.GetMember(), Reason: req.GetReason(), AcceptLoss: req.GetAcceptLoss()})
}

// mayTouch asks policy before a member is changed that can change members, or one
// becomes or ends being so. Identity asks again, by roles, when nothing changes
// meanwhile.
func (m *members) mayTouch(caller access.Caller, name string, owner access.Principal, given []access.Role) error {
	roles := slices.Clone(given)
	for _, known := range m.admin.List() {
		p := known.Principal
		if p.String() == name || p.Name == name || p == owner {
			roles = append(roles, known.Roles...)
		}
	}
	return m.mayGive(caller, roles)
}

func rolesOf(names []string) ([]access.Role, error) {
	var roles []access.Role
	for _, name := range names {
		role, err := access.ParseRole(name)
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "%w", err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

type devices struct{ admin Members }

// ListDevices lists all devices.
func (d *devices) ListDevices(context.Context, *palyrav1.ListDevicesRequest) (*palyrav1.ListDevicesResponse, error) {
	res := &palyrav1.ListDevicesResponse{}
	for _, dev := range d.admin.Devices() {
		res.Devices = append(res.Devices, deviceMessage(dev))
	}
	return res, nil
}

// RenewCertificate issues a new certificate for the calling device.
func (d *devices) RenewCertificate(ctx context.Context, req *palyrav1.RenewCertificateRequest) (*palyrav1.RenewCertificateResponse, error) {
	c, err := d.admin.Renew(ctx, callerOf(ctx).DeviceID, keyOf(ctx), requestPEM(req.GetCertificateRequest()))
	if err != nil {
		return nil, err
	}
	return &palyrav1.RenewCertificateResponse{CertificateChain: c.Chain, CaCertificate: c.Root}, nil
}

// RevokeDevice refuses a device from now on.
func (d *devices) RevokeDevice(ctx context.Context, req *palyrav1.RevokeDeviceRequest) (*palyrav1.RevokeDeviceResponse, error) {
	dev, err := d.admin.Revoke(ctx, callerOf(ctx), req.GetDeviceId(), req.GetReason(), req.GetAcceptLoss())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RevokeDeviceResponse{Device: deviceMessage(dev)}, nil
}

// RenameDevice gives a device another name.
func (d *devices) RenameDevice(ctx context.Context, req *palyrav1.RenameDeviceRequest) (*palyrav1.RenameDeviceResponse, error) {
	dev, err := d.admin.RenameDevice(ctx, callerOf(ctx).Principal, req.GetDeviceId(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RenameDeviceResponse{Device: deviceMessage(dev)}, nil
}

// AddDevice gives a member whose credential is lost another device.
func (d *devices) AddDevice(ctx context.Context, req *palyrav1.AddDeviceRequest) (*palyrav1.AddDeviceResponse, error) {
	c, err := d.admin.AddDevice(ctx, callerOf(ctx), identity.Recovery{
		Member: req.GetMember(), Request: requestPEM(req.GetCertificateRequest()), RevokeOld: req.GetRevokeOld(), AcceptLoss: req.GetAcceptLoss(),
	})
	if err != nil {
		return nil, err
	}
	res := &palyrav1.AddDeviceResponse{Device: deviceMessage(c.Device), CertificateChain: c.Chain, CaCertificate: c.Root, ServerName: c.ServerName}
	for _, old := range c.Revoked {
		res.Revoked = append(res.Revoked, old.ID)
	}
	return res, nil
}

// toldOfConfirmed is a notice for everybody: the word of the gateway's host makes one
// person two where nobody else looked.
func toldOfConfirmed(members []access.Principal) []string {
	if len(members) == 0 {
		return nil
	}
	names := make([]string, len(members))
	for i, p := range members {
		names[i] = p.String()
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return []string{"confirmed on the gateway's host in the last seven days to be people of their own: " + strings.Join(names, ", ")}
}

// toldOfWaiting are notices for the owner of agents.
func toldOfWaiting(agents []access.Principal) []string {
	var list []string
	for _, p := range agents {
		list = append(list, fmt.Sprintf("%s waits for your consent to act in your name: `palyra members consent %s`", p, p))
	}
	return list
}

// toldOfChats are notices for the member that users of chats were mapped to.
func toldOfChats(users []notify.ChatUser) []string {
	var list []string
	for _, u := range users {
		list = append(list, fmt.Sprintf("%s mapped the user %s/%s of Slack to you, whose votes do not count before you consent: `palyra notify slack consent %[2]s/%[3]s`", u.By, u.Team, u.User))
	}
	return list
}

// toldOfDevices are notices for one caller: whoever holds such a device is the
// member, so the member and the owners have to know.
func toldOfDevices(added []identity.Device) []string {
	var list []string
	for _, d := range added {
		next := "if nobody meant it: `palyra devices revoke " + d.ID + "`"
		if d.Revoked() {
			next = "it was revoked since; `palyra devices show " + d.ID + "` says what was done with it"
		}
		list = append(list, fmt.Sprintf("%s was given another device, %s, at %s; %s", d.Principal, d.ID, d.CreatedAt.Format(time.RFC3339), next))
	}
	return list
}

// toldOfOldKeys are alarms: somebody has a copy of a credential.
func toldOfOldKeys(devices []identity.Device) []string {
	var list []string
	for _, d := range devices {
		list = append(list, fmt.Sprintf("a replaced key of device %s of %s was used at %s: somebody holds a copy of its old credential; if that is none of yours: `palyra devices revoke %s`",
			d.ID, d.Principal, d.OldKeyAt.Format(time.RFC3339), d.ID))
	}
	return list
}

// toldOfPresence are notices for one caller: whoever has a presence key of somebody
// counts as being there.
func toldOfPresence(devices []identity.Device) []string {
	var list []string
	for _, d := range devices {
		of, k := "device "+d.ID+" of "+d.Principal.String(), d.Presence
		switch {
		case k.Waits:
			list = append(list, fmt.Sprintf("the presence key of %s waits to be confirmed: `palyra key presence --confirm %s`; if nobody meant it: `palyra devices revoke %s`", of, d.ID, d.ID))
		case len(k.Public) > 0:
			list = append(list, fmt.Sprintf("%s got a presence key at %s; if that was none of yours: `palyra devices revoke %s`", of, k.At.Format(time.RFC3339), d.ID))
		default:
			list = append(list, fmt.Sprintf("the gateway's host took the presence key from %s at %s", of, k.ResetAt.Format(time.RFC3339)))
		}
	}
	return list
}

func deviceMessage(d identity.Device) *palyrav1.Device {
	return &palyrav1.Device{
		DeviceId: d.ID, Principal: d.Principal.String(), Name: d.Name, CreatedAt: timeMessage(d.CreatedAt),
		CertificateExpiresAt: timeMessage(d.NotAfter), RevokedAt: timeMessage(d.RevokedAt), KeySha256: d.KeySHA256,
		LoginEndsAt: timeMessage(d.LoginUntil),
	}
}

// requestPEM wraps a DER request, which is what the API takes.
func requestPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
