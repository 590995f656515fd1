// Package things has the services about what a gateway has: upstream servers (McpService),
// skills (SkillService), secrets (VaultService), notification targets (NotifyService), what
// was installed into agents (InstallService) and the gateway's own keys (KeyService). It turns
// messages into calls of the packages that keep these, and asks policy where they do not.
package things

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/ops/keyadmin"
)

// Keys are those of the gateway.
type Keys interface {
	List() []keyadmin.Key
	Rotate(ctx context.Context, actor, name string) (keyadmin.Rotation, error)
}

// KeyService is the KeyService. All fields are required.
type KeyService struct {
	Keys    Keys
	Devices interface {
		Device(id string) (identity.Device, bool)
	}
	// Caller is who asks.
	Caller func(context.Context) access.Caller
}

// ListKeys lists the keys.
func (s *KeyService) ListKeys(context.Context, *palyrav1.ListKeysRequest) (*palyrav1.ListKeysResponse, error) {
	res := &palyrav1.ListKeysResponse{}
	for _, k := range s.Keys.List() {
		res.Keys = append(res.Keys, keyMessage(k))
	}
	return res, nil
}

// RotateKey replaces a key.
func (s *KeyService) RotateKey(ctx context.Context, req *palyrav1.RotateKeyRequest) (*palyrav1.RotateKeyResponse, error) {
	caller := s.Caller(ctx)
	// With an owner's certificate alone, somebody far away could end what others verify
	// with the keys that they have.
	if d, known := s.Devices.Device(caller.DeviceID); !known || !d.Local {
		return nil, reason.Errorf(reason.PermissionDenied, "only the gateway's own host replaces its keys").
			WithRemedy("Run `palyrad keys rotate %s` there.", req.GetName())
	}
	r, err := s.Keys.Rotate(ctx, caller.Principal.String(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RotateKeyResponse{Key: keyMessage(r.Key), WasSha256: r.Was}, nil
}

func keyMessage(k keyadmin.Key) *palyrav1.GatewayKey {
	return &palyrav1.GatewayKey{
		Name: k.Name, Algorithm: k.Algorithm, Sha256: k.SHA256, Past: int32(k.Past),
		NotBefore: timestamppb.New(k.NotBefore), NotAfter: timestamppb.New(k.NotAfter),
	}
}

// FromMessage is the key of a message.
func FromMessage(k *palyrav1.GatewayKey) keyadmin.Key {
	return keyadmin.Key{
		Name: k.GetName(), Algorithm: k.GetAlgorithm(), SHA256: k.GetSha256(), Past: int(k.GetPast()),
		NotBefore: k.GetNotBefore().AsTime(), NotAfter: k.GetNotAfter().AsTime(),
	}
}
