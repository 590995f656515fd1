package daemon

import (
	"context"

	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/policyadmin"
	"palyra/internal/rpc"
)

// members is what the API does with members and devices; what it only reads is
// the registry's and the service's.
type members struct {
	*access.Registry
	*identity.Service
	authority *ca.Authority
	policies  *policyadmin.Admin
}

var _ rpc.Members = (*members)(nil)

// Add adds a member. Policy knows the member when Add returns.
func (m *members) Add(ctx context.Context, by access.Caller, n rpc.NewMember) (rpc.Credential, error) {
	added, err := m.Service.AddMember(ctx, by.Principal, n.Name, n.Kind, n.Roles, n.Owner, n.Request, n.AcceptLoss)
	if err != nil {
		return rpc.Credential{}, err
	}
	if err := m.policies.Rebuild(ctx, by.Principal.String()); err != nil {
		return rpc.Credential{}, err
	}
	return rpc.Credential{
		Member: added.Member, Device: added.Device, Chain: string(added.Certificate.PEM),
		Root: string(m.authority.RootPEM()), ServerName: serverName,
	}, nil
}

// liveDevice reports whether a device may still act.
func liveDevice(service *identity.Service) func(id string) bool {
	return func(id string) bool {
		d, known := service.Device(id)
		return known && !d.Revoked()
	}
}

// sessionDevice reports whether a device is the session of a login.
func sessionDevice(service *identity.Service) func(id string) bool {
	return func(id string) bool {
		d, known := service.Device(id)
		return known && d.Session()
	}
}

// revokedDevice reports whether a device was taken from whoever had it.
func revokedDevice(service *identity.Service) func(id string) bool {
	return func(id string) bool {
		d, known := service.Device(id)
		return known && d.Revoked()
	}
}

// serverName is in every server certificate.
const serverName = "localhost"

// Renew issues a new certificate for a device.
func (m *members) Renew(ctx context.Context, deviceID, byKey string, csr []byte) (rpc.Credential, error) {
	issued, err := m.Service.Renew(ctx, deviceID, byKey, csr)
	if err != nil {
		return rpc.Credential{}, err
	}
	return rpc.Credential{Chain: string(issued.PEM), Root: string(m.authority.RootPEM())}, nil
}

// Revoke refuses a device from now on. Policy knows who is left when it returns.
func (m *members) Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error) {
	dev, err := m.Service.Revoke(ctx, by.Principal, deviceID, why, acceptLoss)
	if err != nil {
		return dev, err
	}
	// It does so although the revocation may have ended the very request that asked.
	return dev, m.policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String())
}

// AddDevice gives a member another device.
func (m *members) AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (rpc.Credential, error) {
	made, err := m.Service.AddDevice(ctx, by.Principal, by.DeviceID, r)
	if err != nil {
		return rpc.Credential{}, err
	}
	// The device of the very request may be one of those that were revoked, and the new
	// one is lost without an answer.
	if err := m.policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()); err != nil {
		return rpc.Credential{}, err
	}
	return rpc.Credential{
		Device: made.Device, Revoked: made.Revoked, Chain: string(made.Certificate.PEM), Root: string(m.authority.RootPEM()), ServerName: serverName,
	}, nil
}
