package call

import (
	"context"

	"palyra/internal/core/tool"
)

// resolved is the digest of what the call comes to, what its changes do, or that its
// program gets a secret: a
// no is remembered by it.
func (a *authorization) resolved(ctx context.Context) (string, error) {
	what := a
	if a.ran != nil {
		what = a.ran
	}
	r, err := a.Dispatcher.Resolved(ctx, what.proposal, what.plan)
	if commit := a.request.Commit; commit != nil {
		places := r.Places
		if err != nil { // the program ran; what it was called by may be gone
			places = []string{commit.Workspace}
		}
		return tool.Resolved{Act: "commit", Places: places, What: map[string]any{"root": commit.Root}}.Digest()
	}
	if err != nil {
		return "", err
	}
	call, err := r.Digest()
	if injection := a.request.Injection; err == nil && injection != nil {
		return tool.Resolved{Act: "inject", Places: r.Places, What: map[string]any{"secret": injection, "call": call}}.Digest()
	}
	return call, err
}
