package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/policy"
)

// Policies loads policy sets.
type Policies interface {
	// Check finds what is wrong with sources under the running schema.
	Check(ctx context.Context, sources []policy.Source) []policy.Finding
	// Reload reads the policy directory again.
	Reload(ctx context.Context, by access.Caller) (Reloaded, error)
	// Current returns the sources in force, the defaults included.
	Current() (sources []policy.Source, loadedAt time.Time)
}

// Reloaded is the set in force after a reload.
type Reloaded struct {
	Version        string
	SnapshotDigest string
	Changed        bool
	Warnings       []policy.Finding
}

type policies struct {
	admin    Policies
	evidence Evidence
	engine   *policy.Engine
}

// ValidatePolicy checks sources without loading them.
func (p *policies) ValidatePolicy(ctx context.Context, req *palyrav1.ValidatePolicyRequest) (*palyrav1.ValidatePolicyResponse, error) {
	sources := make([]policy.Source, len(req.GetSources()))
	for i, s := range req.GetSources() {
		sources[i] = policy.Source{Name: s.GetName(), Text: s.GetText()}
	}
	return &palyrav1.ValidatePolicyResponse{Findings: findingMessages(p.admin.Check(ctx, sources))}, nil
}

// GetPolicy returns the set in force.
func (p *policies) GetPolicy(_ context.Context, _ *palyrav1.GetPolicyRequest) (*palyrav1.GetPolicyResponse, error) {
	set := p.engine.Current()
	sources, loadedAt := p.admin.Current()
	res := &palyrav1.GetPolicyResponse{
		Version: set.Version(), SchemaDigest: set.SchemaDigest(), SnapshotDigest: set.SnapshotDigest(),
		LoadedAt: timestamppb.New(loadedAt), Schema: set.Schema(),
	}
	for _, s := range sources {
		res.Sources = append(res.Sources, &palyrav1.PolicySource{Name: s.Name, Text: s.Text})
	}
	return res, nil
}

// ReloadPolicy reads the policy directory again.
func (p *policies) ReloadPolicy(ctx context.Context, _ *palyrav1.ReloadPolicyRequest) (*palyrav1.ReloadPolicyResponse, error) {
	r, err := p.admin.Reload(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &palyrav1.ReloadPolicyResponse{
		Version: r.Version, SnapshotDigest: r.SnapshotDigest, Changed: r.Changed, Warnings: findingMessages(r.Warnings),
	}, nil
}

// GetSnapshot returns the configuration behind a digest.
func (p *policies) GetSnapshot(ctx context.Context, req *palyrav1.GetSnapshotRequest) (*palyrav1.GetSnapshotResponse, error) {
	content, err := p.evidence.Snapshot(ctx, req.GetSnapshotDigest())
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetSnapshotResponse{SnapshotJson: content}, nil
}

func findingMessages(list []policy.Finding) []*palyrav1.PolicyFinding {
	out := make([]*palyrav1.PolicyFinding, len(list))
	for i, f := range list {
		out[i] = &palyrav1.PolicyFinding{
			Severity: string(f.Severity), Code: f.Code, File: f.File, Line: int32(f.Line), Column: int32(f.Column),
			Message: f.Message, SourceLine: f.SourceLine, Help: f.Help, PolicyId: f.PolicyID,
		}
	}
	return out
}
