package presenceproof

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/presence"
	"palyra/internal/ops/localsocket"
)

// ConfirmMembers confirms members on behalf of the gateway's host.
func (s *Service) ConfirmMembers(ctx context.Context, req *palyrav1.ConfirmMembersRequest) (*palyrav1.ConfirmMembersResponse, error) {
	if err := s.actsForHost(ctx, req); err != nil {
		return nil, err
	}
	members, err := s.devices.ConfirmOnHost(ctx, req.GetMembers())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ConfirmMembersResponse{}
	for _, p := range members {
		res.Members = append(res.Members, p.String())
	}
	return res, nil
}

// actsForHost checks that the administrator of the gateway's host sent the request. An agent
// that runs as palyrad's user, or as the user of the local operator's bundle, could send it
// too. The presence key of the local operator's device distinguishes the two.
func (s *Service) actsForHost(ctx context.Context, req *palyrav1.ConfirmMembersRequest) error {
	caller := s.caller(ctx)
	if peer, local := localsocket.PeerOf(ctx); local {
		return s.peerActsForHost(peer, caller)
	}
	dev, err := s.device(caller)
	switch {
	case err != nil:
		return err
	case !dev.Local:
		return reason.Errorf(reason.PermissionDenied, "device %s is not the local operator's device of the gateway's host", dev.ID).
			WithRemedy("On the gateway's host, run `palyra members confirm --host NAME` as the user of palyrad, or `palyrad members confirm NAME` as root. To confirm as yourself, omit --host.")
	case len(req.GetMembers()) == 0:
		return reason.Errorf(reason.InvalidInput, "the proof of presence has no members").WithRemedy("Name each member to confirm.")
	}
	return s.proves(dev, "", req.GetProof(), presence.MemberConfirmation{
		Gateway: s.gateway, By: dev.ID, Members: req.GetMembers(), Nonce: req.GetProof().GetNonce(),
	})
}

// peerActsForHost decides for a process at the other end of the local operator's socket. The guard
// of the API admits only root and the owner of the socket.
func (s *Service) peerActsForHost(peer localsocket.Peer, caller access.Caller) error {
	switch {
	case peer.Root():
		return nil
	case !host(caller):
		return reason.Errorf(reason.PermissionDenied, "a console session cannot act for the gateway's host").
			WithRemedy("Run `palyrad members confirm` on the gateway's host.")
	case !peer.Near:
		return reason.Errorf(reason.PermissionDenied, "palyrad cannot verify that the process at the other end of the socket is in its own pid namespace").
			WithRemedy("Run the command outside the container or sandbox.")
	case s.ownerRunsAgents():
		return reason.Errorf(reason.PresenceNotProven, "agents may run as uid %d too, so this connection does not show that a person sent the request", peer.UID).
			WithRemedy("Run `palyrad members confirm` as root; or run `palyra members confirm --host NAME`, which asks for the presence key of this device; or stop palyrad, run `palyrad members confirm` again, and start palyrad.")
	}
	return nil
}
