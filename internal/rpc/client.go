package rpc

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/reason"
)

// AddMember asks the gateway of a credential bundle to add a member. It returns
// the id of the member's device, and its bundle but for the key.
func AddMember(ctx context.Context, as identity.Bundle, n NewMember) (device string, made identity.Bundle, err error) {
	der, _ := pem.Decode(n.Request)
	if der == nil {
		return "", made, errors.New("the certificate request is not PEM")
	}
	client := palyrav1connect.NewAccessServiceClient(
		&http.Client{Transport: &http.Transport{TLSClientConfig: as.ClientTLS(), ForceAttemptHTTP2: true}}, "https://"+as.Address)
	roles := make([]string, len(n.Roles))
	for i, r := range n.Roles {
		roles[i] = string(r)
	}
	res, err := client.AddMember(ctx, &palyrav1.AddMemberRequest{
		Name: n.Name, Kind: string(n.Kind), Roles: roles, Owner: n.Owner.String(), CertificateRequest: der.Bytes,
	})
	if err != nil {
		return "", made, fmt.Errorf("asking the running palyrad to add %s: %w", n.Name, ReasonOf(err))
	}
	chain, err := ca.ParseChain([]byte(res.GetCertificateChain()))
	if err != nil {
		return "", made, fmt.Errorf("reading the certificate of %s: %w", n.Name, err)
	}
	return res.GetDeviceId(), identity.Bundle{Root: as.Root, Chain: chain, Address: as.Address, ServerName: res.GetServerName()}, nil
}

// ReasonOf gives an error of the API back the reason that it was sent with.
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
