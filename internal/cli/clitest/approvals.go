package clitest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

func serveApprovals(f *Gateway) {
	on(f, func(req *palyrav1.ListApprovalsRequest) (*palyrav1.ListApprovalsResponse, error) {
		list, next := page(f.approvals(req.GetStates()), req.GetPageToken())
		return &palyrav1.ListApprovalsResponse{Approvals: list, NextPageToken: next}, nil
	})
	on(f, func(req *palyrav1.GetApprovalRequest) (*palyrav1.GetApprovalResponse, error) {
		v, ok := f.Approvals[req.GetApprovalId()]
		if !ok {
			return nil, notFound("approval %s not found", req.GetApprovalId())
		}
		return &palyrav1.GetApprovalResponse{Approval: v}, nil
	})
	stream(f, func(ctx context.Context, _ *palyrav1.WatchApprovalsRequest, send func(*palyrav1.WatchApprovalsResponse) error) error {
		f.Mu.Lock()
		list := f.approvals(nil)
		f.Mu.Unlock()
		for i, v := range list {
			if err := send(&palyrav1.WatchApprovalsResponse{Approval: v, Cursor: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	on(f, func(req *palyrav1.CancelApprovalRequest) (*palyrav1.CancelApprovalResponse, error) {
		v, err := f.change(req.GetApprovalId(), nil, func(v *palyrav1.Approval) { v.State = palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED })
		return &palyrav1.CancelApprovalResponse{Approval: v}, err
	})
	// The arguments of the call are replaced, and its digest.
	on(f, func(req *palyrav1.EditApprovalRequest) (*palyrav1.EditApprovalResponse, error) {
		v, err := f.change(req.GetApprovalId(), func(v *palyrav1.Approval) error {
			if v.GetVersion() != req.GetVersion() {
				return errAnswered
			}
			return sameDigest(v, req.GetShownDigest())
		}, func(v *palyrav1.Approval) {
			was := v.GetCallDigest()
			v.Version, v.Votes, v.CallDigest, v.Prompt.ArgumentsJson = v.GetVersion()+1, nil, canonical.Digest(req.GetInputJson()), req.GetInputJson()
			v.Edits = append(v.Edits, &palyrav1.ApprovalEdit{User: "user:ada", Surface: req.GetSurface(), Reason: req.GetReason(), WasDigest: was, IsDigest: v.GetCallDigest()})
		})
		return &palyrav1.EditApprovalResponse{Approval: v}, err
	})
	serve(f, f.decide)
	stream(f, func(_ context.Context, req *palyrav1.ExportApprovalsRequest, send func(*palyrav1.ExportApprovalsResponse) error) error {
		for _, part := range []string{`{"kind":"approval"}` + "\n", `{"kind":"trailer","format":"` + req.GetFormat().String() + `"}` + "\n"} {
			if err := send(&palyrav1.ExportApprovalsResponse{Data: []byte(part)}); err != nil {
				return err
			}
		}
		return nil
	})
	on(f, func(req *palyrav1.ListGrantsRequest) (*palyrav1.ListGrantsResponse, error) {
		out := &palyrav1.ListGrantsResponse{}
		for _, g := range f.Grants {
			if g.GetRevokedAt() == nil || req.GetIncludeEnded() {
				out.Grants = append(out.Grants, g)
			}
		}
		return out, nil
	})
	on(f, func(req *palyrav1.RevokeGrantRequest) (*palyrav1.RevokeGrantResponse, error) {
		g, ok := f.Grants[req.GetGrantId()]
		if !ok {
			return nil, notFound("grant %s not found", req.GetGrantId())
		}
		g.RevokedAt, g.RevokedBy, g.RevokeReason = now, "user:ada", req.GetReason()
		return &palyrav1.RevokeGrantResponse{Grant: g}, nil
	})
}

// approvals returns the approvals in some states, nil for all, newest first. The caller holds Mu.
func (f *Gateway) approvals(states []palyrav1.ApprovalState) []*palyrav1.Approval {
	list := slices.DeleteFunc(slices.Collect(maps.Values(f.Approvals)), func(v *palyrav1.Approval) bool {
		return len(states) > 0 && !slices.Contains(states, v.GetState())
	})
	slices.SortFunc(list, func(a, b *palyrav1.Approval) int { return strings.Compare(b.GetApprovalId(), a.GetApprovalId()) })
	return list
}

// page returns a page of a list: the first entry, or the rest.
func page[T any](list []T, token string) (part []T, next string) {
	switch {
	case token == "rest":
		return list[1:], ""
	case len(list) > 1:
		return list[:1], "rest"
	}
	return list, ""
}

var errAnswered = reason.Errorf(reason.ApprovalConflict, "bob denied it before").WithField("changed_by", "user:bob")

func sameDigest(v *palyrav1.Approval, shown string) error {
	if shown != v.GetCallDigest() {
		return reason.Errorf(reason.DigestMismatch, "the digest is of another call")
	}
	return nil
}

// change changes a copy of a pending approval if check, which may be nil, permits it. The caller
// holds Mu.
func (f *Gateway) change(id string, check func(*palyrav1.Approval) error, edit func(*palyrav1.Approval)) (*palyrav1.Approval, error) {
	v := f.Approvals[id]
	switch {
	case v == nil:
		return nil, notFound("approval %s not found", id)
	case v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
		return nil, errAnswered
	case check != nil:
		if err := check(v); err != nil {
			return nil, err
		}
	}
	v = proto.CloneOf(v)
	edit(v)
	f.Approvals[id] = v
	return v, nil
}

// decide enforces the rules of votes: one answer, and the digest of the pending call.
func (f *Gateway) decide(ctx context.Context, req *palyrav1.DecideApprovalRequest) (res *palyrav1.DecideApprovalResponse, err error) {
	proven, unproven := f.proven(ctx, req)
	f.Change(func() {
		f.Votes = append(f.Votes, req)
		if f.VotesRefused {
			err = reason.Errorf(reason.PermissionDenied, "nobody answers for their own call")
			return
		}
		var v *palyrav1.Approval
		v, err = f.change(req.GetApprovalId(), func(v *palyrav1.Approval) error {
			return cmp.Or(sameDigest(v, req.GetShownDigest()), unproven)
		}, func(v *palyrav1.Approval) {
			switch {
			case !req.GetAllow():
				v.State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
			case v.GetPresenceWanted() && !proven:
				v.Missing = "the approval of 1 person, with presence proven"
			default:
				v.PresenceWanted, v.State = false, palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
			}
		})
		res = &palyrav1.DecideApprovalResponse{Approval: v}
	})
	return res, err
}
