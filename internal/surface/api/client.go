package api

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/surface/api/changetable"
	"palyra/internal/surface/api/things"
)

// AddMember adds a member through the gateway of a credential bundle. It returns the id of the
// member's device, and its bundle without the key.
func AddMember(ctx context.Context, as identity.Bundle, n NewMember) (device string, made identity.Bundle, err error) {
	der, err := requestDER(n.Request)
	if err != nil {
		return "", made, err
	}
	roles := make([]string, len(n.Roles))
	for i, r := range n.Roles {
		roles[i] = string(r)
	}
	res, err := palyrav1connect.NewAccessServiceClient(channel(as)).AddMember(ctx, &palyrav1.AddMemberRequest{
		Name: n.Name, Kind: string(n.Kind), Roles: roles, Owner: n.Owner.String(), CertificateRequest: der, AcceptLoss: n.AcceptLoss,
	})
	if err != nil {
		return "", made, fmt.Errorf("asking the running palyrad to add %s: %w", n.Name, ReasonOf(err))
	}
	made, err = certified(as, res.GetCertificateChain(), res.GetServerName())
	return res.GetDeviceId(), made, err
}

// AddDevice adds a device to a member through the gateway of the local operator's bundle. It
// returns the device with the devices revoked for it, and its bundle without the key.
func AddDevice(ctx context.Context, as identity.Bundle, r identity.Recovery) (res *palyrav1.AddDeviceResponse, made identity.Bundle, err error) {
	der, err := requestDER(r.Request)
	if err != nil {
		return nil, made, err
	}
	res, err = palyrav1connect.NewIdentityServiceClient(channel(as)).AddDevice(ctx, &palyrav1.AddDeviceRequest{
		Member: r.Member, CertificateRequest: der, RevokeOld: r.RevokeOld, AcceptLoss: r.AcceptLoss,
	})
	if err != nil {
		return nil, made, fmt.Errorf("asking the running palyrad for a device of %s: %w", r.Member, ReasonOf(err))
	}
	made, err = certified(as, res.GetCertificateChain(), res.GetServerName())
	return res, made, err
}

// WaitingChange waits for the pending approval of a change that the bundle's device requested,
// and returns it. It returns nil when ctx ends first.
func WaitingChange(ctx context.Context, as identity.Bundle, every time.Duration) *palyrav1.Approval {
	c, at := channel(as)
	defer c.CloseIdleConnections()
	return changetable.Waiting(ctx, every, palyrav1connect.NewStatusServiceClient(c, at), palyrav1connect.NewApprovalsServiceClient(c, at))
}

// withdrawTimeout bounds WithdrawChange.
const withdrawTimeout = 5 * time.Second

// WithdrawChange cancels an approval that the device of a bundle requested. It works after ctx has
// ended, because an interrupted command calls it.
func WithdrawChange(ctx context.Context, as identity.Bundle, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	c, at := channel(as)
	defer c.CloseIdleConnections()
	_, err := palyrav1connect.NewApprovalsServiceClient(c, at).CancelApproval(ctx, &palyrav1.CancelApprovalRequest{ApprovalId: id})
	return ReasonOf(err)
}

// ListKeys returns the keys of the gateway of the local operator's bundle.
func ListKeys(ctx context.Context, as identity.Bundle) ([]keyadmin.Key, error) {
	res, err := palyrav1connect.NewKeyServiceClient(channel(as)).ListKeys(ctx, &palyrav1.ListKeysRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the running palyrad for its keys: %w", ReasonOf(err))
	}
	list := make([]keyadmin.Key, len(res.GetKeys()))
	for i, k := range res.GetKeys() {
		list[i] = things.FromMessage(k)
	}
	return list, nil
}

// RotateKey replaces a key of the gateway of the local operator's bundle.
func RotateKey(ctx context.Context, as identity.Bundle, name string) (keyadmin.Rotation, error) {
	res, err := palyrav1connect.NewKeyServiceClient(channel(as)).RotateKey(ctx, &palyrav1.RotateKeyRequest{Name: name})
	if err != nil {
		return keyadmin.Rotation{}, fmt.Errorf("asking the running palyrad to replace the key %s: %w", name, ReasonOf(err))
	}
	return keyadmin.Rotation{Key: things.FromMessage(res.GetKey()), Was: res.GetWasSha256()}, nil
}

// channel returns the HTTP client and base URL for the gateway of a bundle.
func channel(as identity.Bundle) (*http.Client, string) {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: as.ClientTLS(), ForceAttemptHTTP2: true}}, "https://" + as.Address
}

// OverSocket returns the HTTP client and base URL for the gateway whose local operator socket is at
// path.
func OverSocket(path string) (*http.Client, string) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	var dialer net.Dialer
	return &http.Client{Transport: &http.Transport{
		Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) },
	}}, "http://localhost"
}

func requestDER(text []byte) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the certificate request is not PEM")
	}
	return block.Bytes, nil
}

// certified returns a bundle without its key.
func certified(as identity.Bundle, chainPEM, serverName string) (identity.Bundle, error) {
	chain, err := ca.ParseChain([]byte(chainPEM))
	if err != nil {
		return identity.Bundle{}, fmt.Errorf("reading the certificate: %w", err)
	}
	return identity.Bundle{Root: as.Root, Chain: chain, Address: as.Address, ServerName: serverName}, nil
}

// ReasonOf restores the reason of an error that the API returned.
func ReasonOf(err error) error {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return err
	}
	for _, detail := range remote.Details() {
		value, decodeErr := detail.Value()
		if decodeErr != nil {
			continue
		}
		if info, ok := value.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return &reason.Error{Code: reason.Code(info.GetReason()), Message: remote.Message(), Remedy: info.GetMetadata()["remedy"]}
		}
	}
	return err
}
