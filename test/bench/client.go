//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/identity"
)

// client is a client of a gateway like `palyra`: HTTP/2, TLS 1.3, and the certificate of a bundle.
type client struct {
	gateway   palyrav1connect.GatewayServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	skills    palyrav1connect.SkillServiceClient
	// http and base are for requests outside the API.
	http *http.Client
	base string
}

func newClient(b identity.Bundle, address string) *client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	h := &http.Client{Transport: &http.Transport{Protocols: &protocols, ForceAttemptHTTP2: true, TLSClientConfig: b.ClientTLS()}}
	base := "https://" + address
	return &client{
		gateway:   palyrav1connect.NewGatewayServiceClient(h, base),
		approvals: palyrav1connect.NewApprovalsServiceClient(h, base),
		skills:    palyrav1connect.NewSkillServiceClient(h, base),
		http:      h, base: base,
	}
}

// call makes one call and waits for its attestation.
func (c *client) call(ctx context.Context, tool, input string) error {
	attested := false
	err := c.follow(ctx, tool, input, func(m *palyrav1.CallToolResponse) error {
		if r := m.GetResult(); r != nil && r.GetOutcome() != "succeeded" {
			return fmt.Errorf("%s %s: %s", tool, r.GetOutcome(), r.GetMessage())
		}
		attested = attested || m.GetAttestation() != nil
		return nil
	})
	if err == nil && !attested {
		return fmt.Errorf("%s: the call ended without an attestation", tool)
	}
	return err
}

// follow makes one call and passes its events to each until one ends it.
func (c *client) follow(ctx context.Context, tool, input string, each func(*palyrav1.CallToolResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.gateway.CallTool(ctx, &palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input)})
	if err != nil {
		return err
	}
	for stream.Receive() {
		m := stream.Msg()
		if d := m.GetDecision(); d != nil && !d.GetAllowed() {
			return fmt.Errorf("%s was denied: %s %s", tool, d.GetReason(), d.GetMessage())
		}
		if err := each(m); err != nil {
			return err
		}
	}
	return stream.Err()
}

// vote allows, once, the displayed call.
func (c *client) vote(ctx context.Context, a *palyrav1.Approval) error {
	_, err := c.approvals.DecideApproval(ctx, &palyrav1.DecideApprovalRequest{
		ApprovalId: a.GetApprovalId(), Allow: true, ShownDigest: a.GetCallDigest(),
	})
	return err
}
