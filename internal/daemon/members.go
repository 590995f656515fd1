package daemon

import (
	"context"

	"palyra/internal/access"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/policyadmin"
	"palyra/internal/rpc"
)

// members is what the API does with members and devices.
type members struct {
	registry  *access.Registry
	identity  *identity.Service
	authority *ca.Authority
	policies  *policyadmin.Admin
}

var _ rpc.Members = (*members)(nil)

// List lists all members.
func (m *members) List() []access.Member { return m.registry.List() }

// Devices lists all devices.
func (m *members) Devices() []identity.Device { return m.identity.Devices() }

// Add adds a member. Policy knows the member when Add returns.
func (m *members) Add(ctx context.Context, by access.Caller, n rpc.NewMember) (rpc.Credential, error) {
	added, err := m.identity.AddMember(ctx, by.Principal, n.Name, n.Kind, n.Roles, n.Owner, n.Request)
	if err != nil {
		return rpc.Credential{}, err
	}
	if err := m.policies.Rebuild(ctx, by.Principal.String()); err != nil {
		return rpc.Credential{}, err
	}
	return rpc.Credential{
		Member: added.Member, DeviceID: added.Device.ID, Chain: string(added.Certificate.PEM),
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

// serverName is in every server certificate.
const serverName = "localhost"

// Renew issues a new certificate for a device.
func (m *members) Renew(ctx context.Context, deviceID string, csr []byte) (rpc.Credential, error) {
	issued, err := m.identity.Renew(ctx, deviceID, csr)
	if err != nil {
		return rpc.Credential{}, err
	}
	return rpc.Credential{DeviceID: deviceID, Chain: string(issued.PEM), Root: string(m.authority.RootPEM())}, nil
}

// Revoke refuses a device from now on.
func (m *members) Revoke(ctx context.Context, by access.Caller, deviceID, why string) (identity.Device, error) {
	return m.identity.Revoke(ctx, by.Principal, deviceID, why)
}
