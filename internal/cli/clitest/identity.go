package clitest

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

type fakeIdentity struct{ f *Gateway }

// AddDevice is for palyrad on the gateway's host; no command of palyra asks it.
func (s fakeIdentity) AddDevice(context.Context, *palyrav1.AddDeviceRequest) (*palyrav1.AddDeviceResponse, error) {
	return nil, GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "only the gateway's own host gives a member another device", nil)
}

func (s fakeIdentity) ListDevices(context.Context, *palyrav1.ListDevicesRequest) (*palyrav1.ListDevicesResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	return &palyrav1.ListDevicesResponse{Devices: s.f.Devices}, nil
}

// RenewCertificate signs for whatever key the request proves, as the gateway
// does for the calling device.
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
	return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "there is no device "+req.GetDeviceId(), nil)
}
