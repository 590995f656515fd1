package rpc

import (
	"context"
	"encoding/pem"
	"fmt"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/policy"
	"palyra/internal/reason"
)

// Members keeps members and their devices.
type Members interface {
	List() []access.Member
	Add(ctx context.Context, by access.Caller, m NewMember) (Credential, error)
	Devices() []identity.Device
	Renew(ctx context.Context, deviceID string, csr []byte) (Credential, error)
	Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error)
	AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (Credential, error)
	// Added are the devices that somebody was given lately, and that a principal has
	// to know of.
	Added(p access.Principal) []identity.Device
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
	for _, name := range req.GetRoles() {
		role, err := access.ParseRole(name)
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "%w", err)
		}
		n.Roles = append(n.Roles, role)
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

// ListMembers lists all members.
func (m *members) ListMembers(context.Context, *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	res := &palyrav1.ListMembersResponse{}
	for _, member := range m.admin.List() {
		res.Members = append(res.Members, memberMessage(member))
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
		NoDevice: m.NoDevice, Decides: m.Decides(),
	}
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
	c, err := d.admin.Renew(ctx, callerOf(ctx).DeviceID, requestPEM(req.GetCertificateRequest()))
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

// toldOfDevices are notices for one caller: whoever holds such a device is the
// member, so the member and the owners have to know.
func toldOfDevices(added []identity.Device) []string {
	var list []string
	for _, d := range added {
		list = append(list, fmt.Sprintf("%s was given another device, %s, on the gateway's host at %s; if nobody meant it: `palyra devices revoke %s`",
			d.Principal, d.ID, d.CreatedAt.Format(time.RFC3339), d.ID))
	}
	return list
}

func deviceMessage(d identity.Device) *palyrav1.Device {
	return &palyrav1.Device{
		DeviceId: d.ID, Principal: d.Principal.String(), Name: d.Name, CreatedAt: timeMessage(d.CreatedAt),
		CertificateExpiresAt: timeMessage(d.NotAfter), RevokedAt: timeMessage(d.RevokedAt),
	}
}

// requestPEM wraps a DER request, which is what the API takes.
func requestPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
