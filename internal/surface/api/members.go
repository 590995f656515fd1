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

// Members stores the members. A change is in force, and visible to policy, when its method
// returns.
type Members interface {
	List() []access.Member
	Add(ctx context.Context, by access.Caller, m NewMember) (Credential, error)
	// Collect returns the unused credential of a member that the caller added earlier with the same
	// key; false if none exists.
	Collect(ctx context.Context, by access.Caller, m NewMember) (Credential, bool, error)
	UpdateMember(ctx context.Context, by access.Principal, c identity.MemberChange) (access.Member, error)
	DisableMember(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error)
	EnableMember(ctx context.Context, by access.Principal, s identity.Standing) (access.Member, error)
	ConfirmMember(ctx context.Context, by access.Principal, name string) (access.Member, error)
	RemoveMember(ctx context.Context, by access.Principal, s identity.Standing) (identity.Removal, error)
}

// Origins stores who controls the members.
type Origins interface {
	// History returns who created, changed and confirmed the members.
	History() provenance.History
	// Binding returns the login identity of a member; false if it has none.
	Binding(p access.Principal) (identity.Binding, bool)
	// ConsentToAgent is in force, and visible to policy, when it returns.
	ConsentToAgent(ctx context.Context, by access.Caller, c identity.Consent) (access.Member, error)
}

// DeviceAdmin stores the devices of members. A change is in force, and visible to policy, when its
// method returns.
type DeviceAdmin interface {
	Devices() []identity.Device
	// LogOut ends the login session that a device represents.
	LogOut(ctx context.Context, deviceID string) error
	Renew(ctx context.Context, deviceID, byKey string, csr []byte) (Credential, error)
	Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error)
	RenameDevice(ctx context.Context, by access.Principal, deviceID, name string) (identity.Device, error)
	AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (Credential, error)
}

// Alerts has the recent changes of members and devices that a principal must be notified of.
type Alerts interface {
	// Waiting returns the agents of an owner that wait for consent.
	Waiting(owner access.Principal) []access.Principal
	// Confirmed returns the members that the gateway's host confirmed recently.
	Confirmed() []access.Principal
	// Added returns the recently added devices that a principal must be notified of.
	Added(p access.Principal) []identity.Device
	// OldKeys returns the devices for which a replaced key was used recently.
	OldKeys(p access.Principal) []identity.Device
	// PresenceKeys returns the devices whose presence key changed recently or waits for
	// confirmation.
	PresenceKeys(p access.Principal) []identity.Device
}

// NewMember is a request to add a member.
type NewMember struct {
	Name  string
	Kind  access.Kind
	Roles []access.Role
	Owner access.Principal
	// Request is a PKCS #10 certificate request, PEM.
	Request []byte
	// AcceptLoss confirms that the caller was warned about users who lose the power to answer
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
	admin   Members
	origins Origins
	engine  *policy.Engine
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

// mayGive checks policy before granting a role that can grant roles.
func (m *members) mayGive(caller access.Caller, roles []access.Role) error {
	for _, r := range roles {
		if r != access.RoleOwner && r != access.RoleAdmin {
			continue
		}
		request := policy.AccessRequest{Caller: caller, Permission: access.PermAccessWriteOwner}
		if err := m.engine.Current().Access().Permit(request); err != nil {
			return err
		}
	}
	return nil
}

// ListMembers lists the members.
func (m *members) ListMembers(_ context.Context, req *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	res := &palyrav1.ListMembersResponse{}
	hands := m.origins.History().Controllers()
	for _, member := range m.admin.List() {
		if member.Removed() && !req.GetRemoved() {
			continue
		}
		one := memberMessage(member)
		for _, p := range hands[member.Principal] {
			one.InHandsOf = append(one.InHandsOf, p.String())
		}
		if b, logsIn := m.origins.Binding(member.Principal); logsIn {
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

// UpdateMember adds and removes roles, and changes the owner of an agent.
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

// DisableMember suspends a member until it is enabled.
func (m *members) DisableMember(ctx context.Context, req *palyrav1.DisableMemberRequest) (*palyrav1.DisableMemberResponse, error) {
	after, err := m.stand(ctx, req, m.admin.DisableMember)
	if err != nil {
		return nil, err
	}
	return &palyrav1.DisableMemberResponse{Member: memberMessage(after)}, nil
}

// EnableMember enables a disabled member.
func (m *members) EnableMember(ctx context.Context, req *palyrav1.EnableMemberRequest) (*palyrav1.EnableMemberResponse, error) {
	after, err := m.stand(ctx, req, m.admin.EnableMember)
	if err != nil {
		return nil, err
	}
	return &palyrav1.EnableMemberResponse{Member: memberMessage(after)}, nil
}

// ConfirmMember confirms the identity of a member.
func (m *members) ConfirmMember(ctx context.Context, req *palyrav1.ConfirmMemberRequest) (*palyrav1.ConfirmMemberResponse, error) {
	after, err := m.admin.ConfirmMember(ctx, callerOf(ctx).Principal, req.GetMember())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConfirmMemberResponse{Member: memberMessage(after)}, nil
}

// ConsentToAgent gives or withdraws the caller's consent to an agent that acts in the caller's
// name.
func (m *members) ConsentToAgent(ctx context.Context, req *palyrav1.ConsentToAgentRequest) (*palyrav1.ConsentToAgentResponse, error) {
	after, err := m.origins.ConsentToAgent(ctx, callerOf(ctx), identity.Consent{Agent: req.GetAgent(), Withdraw: req.GetWithdraw()})
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConsentToAgentResponse{Member: memberMessage(after)}, nil
}

// RemoveMember removes a member permanently.
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

// standing is a request that changes whether a member may act.
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

// mayTouch checks policy before a change of a member that has, or will have, a role that can
// change members. Package identity checks the roles again while the change is locked.
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

type devices struct{ admin DeviceAdmin }

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

// RevokeDevice revokes a device.
func (d *devices) RevokeDevice(ctx context.Context, req *palyrav1.RevokeDeviceRequest) (*palyrav1.RevokeDeviceResponse, error) {
	dev, err := d.admin.Revoke(ctx, callerOf(ctx), req.GetDeviceId(), req.GetReason(), req.GetAcceptLoss())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RevokeDeviceResponse{Device: deviceMessage(dev)}, nil
}

// RenameDevice changes the name of a device.
func (d *devices) RenameDevice(ctx context.Context, req *palyrav1.RenameDeviceRequest) (*palyrav1.RenameDeviceResponse, error) {
	dev, err := d.admin.RenameDevice(ctx, callerOf(ctx).Principal, req.GetDeviceId(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RenameDeviceResponse{Device: deviceMessage(dev)}, nil
}

// AddDevice adds a device to a member whose credential is lost.
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

// confirmationNotices returns a notice for all members. A confirmation on the gateway's host is not
// reviewed by a second member, and could let one person count as two.
func confirmationNotices(members []access.Principal) []string {
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
	return []string{"confirmed on the gateway's host in the last seven days as distinct people: " + strings.Join(names, ", ")}
}

// waitingAgentNotices returns notices for the owner of agents.
func waitingAgentNotices(agents []access.Principal) []string {
	var list []string
	for _, p := range agents {
		list = append(list, fmt.Sprintf("%s waits for your consent to act in your name: `palyra members consent %s`", p, p))
	}
	return list
}

// chatUserNotices returns notices for the member to which chat users are mapped.
func chatUserNotices(users []notify.ChatUser) []string {
	var list []string
	for _, u := range users {
		list = append(list, fmt.Sprintf("%s mapped the Slack user %s/%s to you; their votes do not count before you consent: `palyra notify slack consent %[2]s/%[3]s`", u.By, u.Team, u.User))
	}
	return list
}

// deviceNotices returns notices for one caller about added devices. The holder of an added device
// acts as its member, so the member and the owners are notified.
func deviceNotices(added []identity.Device) []string {
	var list []string
	for _, d := range added {
		next := "if this was not intended: `palyra devices revoke " + d.ID + "`"
		if d.Revoked() {
			next = "it has been revoked; `palyra devices show " + d.ID + "` lists its activity"
		}
		list = append(list, fmt.Sprintf("%s was given another device, %s, at %s; %s", d.Principal, d.ID, d.CreatedAt.Format(time.RFC3339), next))
	}
	return list
}

// oldKeyAlarms returns alarms: the use of a replaced key means that a copy of a credential exists.
func oldKeyAlarms(devices []identity.Device) []string {
	var list []string
	for _, d := range devices {
		list = append(list, fmt.Sprintf("a replaced key of device %s of %s was used at %s: a copy of its old credential exists; if it is not yours: `palyra devices revoke %s`",
			d.ID, d.Principal, d.OldKeyAt.Format(time.RFC3339), d.ID))
	}
	return list
}

// presenceKeyNotices returns notices for one caller: the holder of a presence key counts as the
// present member.
func presenceKeyNotices(devices []identity.Device) []string {
	var list []string
	for _, d := range devices {
		of, k := "device "+d.ID+" of "+d.Principal.String(), d.Presence
		switch {
		case k.Waits:
			list = append(list, fmt.Sprintf("the presence key of %s is not confirmed: `palyra key presence --confirm %s`; if it was not intended: `palyra devices revoke %s`", of, d.ID, d.ID))
		case len(k.Public) > 0:
			list = append(list, fmt.Sprintf("%s got a presence key at %s; if it is not yours: `palyra devices revoke %s`", of, k.At.Format(time.RFC3339), d.ID))
		default:
			list = append(list, fmt.Sprintf("the gateway's host removed the presence key of %s at %s", of, k.ResetAt.Format(time.RFC3339)))
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

// requestPEM encodes a DER request as the PEM that the API requires.
func requestPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
