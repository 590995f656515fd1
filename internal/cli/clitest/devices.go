package clitest

import (
	"cmp"
	"crypto/x509"
	"time"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/presenceproof"
)

func serveDevices(f *Gateway) {
	f.reply(&palyrav1.ListDeviceActsResponse{Acts: []*palyrav1.DeviceAct{
		{Seq: 41, At: ago(time.Minute), Code: "PAL-R100", Subject: ApprovalID, Summary: "started a run of fast", Undo: "palyra runs cancel " + ApprovalID},
		{Seq: 12, At: ago(time.Hour), Code: "PAL-A102", Subject: ApprovalID, Summary: "denied an approval"},
	}})
	on(f, func(*palyrav1.ListDevicesRequest) (*palyrav1.ListDevicesResponse, error) {
		return &palyrav1.ListDevicesResponse{Devices: f.Devices}, nil
	})
	on(f, func(req *palyrav1.GetDeviceRequest) (*palyrav1.GetDeviceResponse, error) {
		d, err := f.device(cmp.Or(req.GetDeviceId(), f.Caller.GetDeviceId()))
		return &palyrav1.GetDeviceResponse{
			PresenceKey: presenceproof.KeyMessage(f.PresenceKeys[d.GetDeviceId()]),
			Device:      d, AddedBy: "user:ada", LastUsedAt: ago(time.Minute), Now: now,
			Keys: []*palyrav1.DeviceKey{
				{Sha256: "sha256:aa", NotAfter: d.GetCertificateExpiresAt(), UsedAt: ago(time.Hour), EndsAt: ago(-4 * time.Minute)},
				{Sha256: "sha256:bb", NotAfter: d.GetCertificateExpiresAt(), UsedAt: ago(time.Minute)},
			},
		}, err
	})
	on(f, f.renew)
	on(f, func(req *palyrav1.RenameDeviceRequest) (*palyrav1.RenameDeviceResponse, error) {
		d, err := f.device(req.GetDeviceId())
		d = proto.CloneOf(d)
		if err == nil {
			d.Name = req.GetName()
		}
		return &palyrav1.RenameDeviceResponse{Device: d}, err
	})
	on(f, func(req *palyrav1.RevokeDeviceRequest) (*palyrav1.RevokeDeviceResponse, error) {
		d, err := f.device(req.GetDeviceId())
		switch {
		case err != nil:
			return nil, err
		case f.Loss != "" && !req.GetAcceptLoss():
			return nil, f.lossError()
		}
		d.RevokedAt = now
		return &palyrav1.RevokeDeviceResponse{Device: d}, nil
	})
}

// device returns a device. The caller holds Mu.
func (f *Gateway) device(id string) (*palyrav1.Device, error) {
	for _, d := range f.Devices {
		if d.GetDeviceId() == id {
			return d, nil
		}
	}
	return nil, notFound("device %s not found", id)
}

// renew signs for the key of the request, as the gateway does for the calling device.
func (f *Gateway) renew(req *palyrav1.RenewCertificateRequest) (*palyrav1.RenewCertificateResponse, error) {
	csr, err := x509.ParseCertificateRequest(req.GetCertificateRequest())
	if err != nil || csr.CheckSignature() != nil {
		return nil, reason.Errorf(reason.InvalidInput, "the request does not parse: %v", err)
	}
	f.Renewals++
	cert := f.w.deviceCertificate(BundleDevice, csr.PublicKey, time.Now().Add(-time.Minute), time.Now().Add(24*time.Hour))
	return &palyrav1.RenewCertificateResponse{CertificateChain: certificatePEM(cert)}, nil
}
