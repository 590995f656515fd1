package clitest

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

type fakeIdentity struct{ f *Gateway }

// AddDevice fails: only palyrad on the gateway's host calls it, and no command of palyra.
func (s fakeIdentity) AddDevice(context.Context, *palyrav1.AddDeviceRequest) (*palyrav1.AddDeviceResponse, error) {
	return nil, GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "only the gateway's own host gives a member another device", nil)
}

func (s fakeIdentity) ListDevices(context.Context, *palyrav1.ListDevicesRequest) (*palyrav1.ListDevicesResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	return &palyrav1.ListDevicesResponse{Devices: s.f.Devices}, nil
}

// RenewCertificate signs for the key of the request, as the gateway does for the calling
// device.
func (s fakeIdentity) RenewCertificate(_ context.Context, req *palyrav1.RenewCertificateRequest) (*palyrav1.RenewCertificateResponse, error) {
	csr, err := x509.ParseCertificateRequest(req.GetCertificateRequest())
	if err != nil || csr.CheckSignature() != nil {
		return nil, GatewayError(connect.CodeInvalidArgument, reason.InvalidInput, fmt.Sprintf("the request does not parse: %v", err), nil)
	}
	s.f.Mu.Lock()
	s.f.Renewals++
	s.f.Mu.Unlock()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), KeyUsage: x509.KeyUsageDigitalSignature,
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/device/01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.f.root.Cert, csr.PublicKey, s.f.root.Key)
	if err != nil {
		return nil, err
	}
	return &palyrav1.RenewCertificateResponse{CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}, nil
}

func (s fakeIdentity) RenameDevice(_ context.Context, req *palyrav1.RenameDeviceRequest) (*palyrav1.RenameDeviceResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	for _, d := range s.f.Devices {
		if d.GetDeviceId() == req.GetDeviceId() {
			renamed := proto.CloneOf(d)
			renamed.Name = req.GetName()
			return &palyrav1.RenameDeviceResponse{Device: renamed}, nil
		}
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "device "+req.GetDeviceId()+" not found", nil)
}

func (s fakeIdentity) RevokeDevice(_ context.Context, req *palyrav1.RevokeDeviceRequest) (*palyrav1.RevokeDeviceResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	for _, d := range s.f.Devices {
		if d.GetDeviceId() == req.GetDeviceId() {
			if s.f.Loss != "" && !req.GetAcceptLoss() {
				return nil, GatewayError(connect.CodeFailedPrecondition, reason.LossNotAccepted, s.f.Loss, nil)
			}
			d.RevokedAt = timestamppb.New(Now)
			return &palyrav1.RevokeDeviceResponse{Device: d}, nil
		}
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "device "+req.GetDeviceId()+" not found", nil)
}

// members returns the members. The caller holds Mu.
func (f *Gateway) members() []*palyrav1.Member {
	members := []*palyrav1.Member{
		{Principal: "agent:claude", Owner: "user:ada", Roles: []string{"agent"}, CreatedAt: timestamppb.New(Now)},
		{Principal: "user:ada", Roles: []string{"owner", "security"}, CreatedAt: timestamppb.New(Now), Decides: true},
	}
	if f.Several {
		members = append(members, &palyrav1.Member{Principal: "user:bob", Roles: []string{"operator"}, CreatedAt: timestamppb.New(Now), Decides: true})
	}
	return members
}

// change returns a changed member, unless the change causes a loss that was not accepted.
func (f *Gateway) change(name string, accept bool, edit func(*palyrav1.Member)) (*palyrav1.Member, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, m := range f.members() {
		if p := m.GetPrincipal(); p != name && p != "user:"+name && p != "agent:"+name {
			continue
		}
		if f.Loss != "" && !accept {
			return nil, GatewayError(connect.CodeFailedPrecondition, reason.LossNotAccepted, f.Loss, nil)
		}
		edit(m)
		f.ChangedMembers = append(f.ChangedMembers, m.GetPrincipal())
		return m, nil
	}
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "the member "+name+" does not exist", nil)
}

func (s fakeAccess) UpdateMember(_ context.Context, req *palyrav1.UpdateMemberRequest) (*palyrav1.UpdateMemberResponse, error) {
	m, err := s.f.change(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) {
		m.Roles = slices.DeleteFunc(m.Roles, func(r string) bool { return slices.Contains(req.GetRemoveRoles(), r) })
		m.Roles = append(m.Roles, req.GetAddRoles()...)
		if req.GetOwner() != "" {
			m.Owner = req.GetOwner()
		}
	})
	return &palyrav1.UpdateMemberResponse{Member: m}, err
}

func (s fakeAccess) DisableMember(_ context.Context, req *palyrav1.DisableMemberRequest) (*palyrav1.DisableMemberResponse, error) {
	m, err := s.f.change(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) { m.Disabled, m.Decides = true, false })
	return &palyrav1.DisableMemberResponse{Member: m}, err
}

func (s fakeAccess) ConfirmMember(_ context.Context, req *palyrav1.ConfirmMemberRequest) (*palyrav1.ConfirmMemberResponse, error) {
	m, err := s.f.change(req.GetMember(), true, func(m *palyrav1.Member) { m.InHandsOf = nil })
	return &palyrav1.ConfirmMemberResponse{Member: m}, err
}

func (s fakeAccess) ConsentToAgent(_ context.Context, req *palyrav1.ConsentToAgentRequest) (*palyrav1.ConsentToAgentResponse, error) {
	m, err := s.f.change(req.GetAgent(), true, func(m *palyrav1.Member) { m.AwaitsConsent = req.GetWithdraw() })
	return &palyrav1.ConsentToAgentResponse{Member: m}, err
}

func (s fakeAccess) EnableMember(_ context.Context, req *palyrav1.EnableMemberRequest) (*palyrav1.EnableMemberResponse, error) {
	m, err := s.f.change(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) { m.Disabled = false })
	return &palyrav1.EnableMemberResponse{Member: m}, err
}

func (s fakeAccess) RemoveMember(_ context.Context, req *palyrav1.RemoveMemberRequest) (*palyrav1.RemoveMemberResponse, error) {
	m, err := s.f.change(req.GetMember(), req.GetAcceptLoss(), func(m *palyrav1.Member) {
		m.Disabled, m.Decides, m.RemovedAt = true, false, timestamppb.New(Now)
	})
	return &palyrav1.RemoveMemberResponse{Member: m}, err
}
