package people

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/page"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity"
	"palyra/internal/surface/api/presenceproof"
)

// Devices are the devices of members.
type Devices interface {
	Device(id string) (identity.Device, bool)
	// LastUse returns the time of the last use, or zero if it is unknown.
	LastUse(d identity.Device) time.Time
	// List returns the members.
	List() []access.Member
}

// Acts returns the acts of devices from the journal.
type Acts interface {
	// DeviceActs returns events before a sequence number (0 for the newest), newest
	// first.
	DeviceActs(ctx context.Context, device string, before int64, limit int) ([]journal.Event, error)
	// Events returns the events that match.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// DeviceService is the DeviceService. All fields are required.
type DeviceService struct {
	Engine  *policy.Engine
	Devices Devices
	Acts    Acts
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// GetDevice returns one device.
func (s *DeviceService) GetDevice(ctx context.Context, req *palyrav1.GetDeviceRequest) (*palyrav1.GetDeviceResponse, error) {
	id := req.GetDeviceId()
	if id == "" {
		id = s.Caller(ctx).DeviceID
	}
	d, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.GetDeviceResponse{
		Device: deviceMessage(d), LastUsedAt: moment(s.Devices.LastUse(d)), OldKeyUsedAt: moment(d.OldKeyAt), Now: timestamppb.Now(),
		PresenceKey: presenceproof.KeyMessage(d.Presence),
	}
	for _, k := range d.Keys {
		res.Keys = append(res.Keys, &palyrav1.DeviceKey{Sha256: k.SHA256, NotAfter: moment(k.NotAfter), UsedAt: moment(k.UsedAt), EndsAt: moment(k.EndsAt)})
	}
	// The actor of a device's first certificate is the member who added the device.
	first, err := s.Acts.Events(ctx, journal.Filter{Subject: d.ID, Code: string(event.CertificateMade), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(first) > 0 {
		res.AddedBy = first[0].Actor
	}
	return res, nil
}

// ListDeviceActs lists the acts of a device.
func (s *DeviceService) ListDeviceActs(ctx context.Context, req *palyrav1.ListDeviceActsRequest) (*palyrav1.ListDeviceActsResponse, error) {
	p, err := page.Parse(int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	d, err := s.find(ctx, req.GetDeviceId())
	if err != nil {
		return nil, err
	}
	events, err := s.Acts.DeviceActs(ctx, d.ID, p.Before, p.Size)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListDeviceActsResponse{}
	var last int64
	for i := range events {
		act := describeAct(&events[i])
		if c := events[i].Code; d.Revoked() && (c == event.Proposed || c == event.RunStarted) {
			act.Undo = "" // the call or run ended with the device
		}
		res.Acts, last = append(res.Acts, act), act.GetSeq()
	}
	res.NextPageToken = p.Next(len(events), last)
	return res, nil
}

// find returns a device that the caller may see. A caller who may not see other devices gets the
// same error for an unknown one.
func (s *DeviceService) find(ctx context.Context, id string) (identity.Device, error) {
	caller := s.Caller(ctx)
	d, known := s.Devices.Device(id)
	if known && (d.Principal == caller.Principal || s.owns(caller.Principal, d.Principal)) {
		return d, nil
	}
	if err := s.Engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermAccessRead}); err != nil {
		return d, err
	}
	if !known {
		return d, reason.Errorf(reason.NotFound, "the device %s does not exist", id).WithRemedy("See `palyra devices list`.")
	}
	return d, nil
}

func (s *DeviceService) owns(user, agent access.Principal) bool {
	for _, m := range s.Devices.List() {
		if m.Principal == agent {
			return m.Owner == user
		}
	}
	return false
}

func deviceMessage(d identity.Device) *palyrav1.Device {
	return &palyrav1.Device{
		DeviceId: d.ID, Principal: d.Principal.String(), Name: d.Name, CreatedAt: moment(d.CreatedAt),
		CertificateExpiresAt: moment(d.NotAfter), RevokedAt: moment(d.RevokedAt), KeySha256: d.KeySHA256,
	}
}
