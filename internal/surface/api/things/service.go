// Package things implements the services for the gateway's resources: upstream servers
// (McpService), skills (SkillService), secrets (VaultService), notification targets
// (NotifyService), installations in agents (InstallService) and the gateway's own keys
// (KeyService). It translates messages to calls of the packages that store these resources, and
// checks policy where those packages do not.
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

// Keys are the keys of the gateway.
type Keys interface {
	List() []keyadmin.Key
	Rotate(ctx context.Context, actor, name string) (keyadmin.Rotation, error)
}

// KeyService implements the KeyService of the API. All fields are required.
type KeyService struct {
	Keys    Keys
	Devices interface {
		Device(id string) (identity.Device, bool)
	}
	// Caller returns the caller of a request.
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
	// An owner's certificate alone must not be enough to invalidate remotely the keys that others
	// verify with.
	if d, known := s.Devices.Device(caller.DeviceID); !known || !d.Local {
		return nil, reason.Errorf(reason.PermissionDenied, "replacing a key is allowed only on the gateway's host").
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

// FromMessage converts a key from its API message.
func FromMessage(k *palyrav1.GatewayKey) keyadmin.Key {
	return keyadmin.Key{
		Name: k.GetName(), Algorithm: k.GetAlgorithm(), SHA256: k.GetSha256(), Past: int(k.GetPast()),
		NotBefore: k.GetNotBefore().AsTime(), NotAfter: k.GetNotAfter().AsTime(),
	}
}
