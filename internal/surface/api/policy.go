package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/surface/api/export"
	"palyra/internal/surface/api/people"
)

// Policies loads and stores policy sets.
type Policies interface {
	people.Ceilings
	PolicyVersions
	// Check returns the findings for sources under the running schema.
	Check(ctx context.Context, sources []policy.Source) []finding.Finding
	// Reload reads the policy directory again.
	Reload(ctx context.Context, by access.Caller) (policyadmin.Reloaded, error)
	Current() policyadmin.InForce
	// Directory compares the policy directory with the set in force.
	Directory() policyadmin.Directory
	// Build builds a policy set from sources. The set also has the sources in force, unless
	// replace is true. It does not come into force.
	Build(ctx context.Context, sources []policy.Source, replace bool) (*policy.Set, error)
	// Test runs test files against sources, or against the sources in force if sources is empty.
	Test(ctx context.Context, sources, tests []policy.Source) (policytests.Report, error)
}

// PolicyVersions has the stored versions, and the calls that they decided.
type PolicyVersions interface {
	// Activate puts a stored version in force, identified by its digest or a prefix of it.
	Activate(ctx context.Context, by access.Caller, version string) (policyadmin.Reloaded, error)
	// Version finds a stored version as Activate does.
	Version(ctx context.Context, version string) (policyadmin.Version, error)
	// Versions lists one page, newest first.
	Versions(ctx context.Context, size int, token string) (list []policyadmin.Version, next string, err error)
	// Past finds a decided call by the id of its proposal or decision. A call of another caller is
	// found only with the permission to read the journal.
	Past(ctx context.Context, by access.Caller, id string) (policyadmin.PastCall, error)
}

type policies struct {
	admin    Policies
	evidence Evidence
	engine   *policy.Engine
	pipeline *call.Pipeline
}

// ValidatePolicy checks sources without loading them.
func (p *policies) ValidatePolicy(ctx context.Context, req *palyrav1.ValidatePolicyRequest) (*palyrav1.ValidatePolicyResponse, error) {
	return &palyrav1.ValidatePolicyResponse{Findings: export.Findings(p.admin.Check(ctx, export.Sources(req.GetSources())))}, nil
}

// GetPolicy returns the set in force, or an earlier version.
func (p *policies) GetPolicy(ctx context.Context, req *palyrav1.GetPolicyRequest) (*palyrav1.GetPolicyResponse, error) {
	if req.GetVersion() != "" {
		v, err := p.admin.Version(ctx, req.GetVersion())
		return &palyrav1.GetPolicyResponse{
			Version: v.Version, LoadedAt: timeMessage(v.FirstLoadedAt), Sources: export.SourceMessages(v.Sources), Activated: v.Activated,
		}, err
	}
	set, current := p.engine.Current(), p.admin.Current()
	return &palyrav1.GetPolicyResponse{
		Version: set.Version(), SchemaDigest: set.SchemaDigest(), SnapshotDigest: set.SnapshotDigest(), Schema: set.Schema(),
		LoadedAt: timestamppb.New(current.LoadedAt), Sources: export.SourceMessages(current.Sources), Activated: current.Activated,
		Directory: directoryMessage(p.admin.Directory()),
	}, nil
}

// ReloadPolicy reads the policy directory again.
func (p *policies) ReloadPolicy(ctx context.Context, _ *palyrav1.ReloadPolicyRequest) (*palyrav1.ReloadPolicyResponse, error) {
	r, err := p.admin.Reload(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &palyrav1.ReloadPolicyResponse{
		Version: r.Version, SnapshotDigest: r.SnapshotDigest, Changed: r.Changed, Warnings: export.Findings(r.Warnings),
		Directory: directoryMessage(p.admin.Directory()),
	}, nil
}

func directoryMessage(d policyadmin.Directory) *palyrav1.PolicyDirectory {
	return &palyrav1.PolicyDirectory{
		Path: d.Path, Present: d.Present, Files: int32(d.Files), Policies: int32(d.Policies), InForce: d.InForce, Problem: d.Problem,
	}
}

// ActivatePolicy puts a stored version in force.
func (p *policies) ActivatePolicy(ctx context.Context, req *palyrav1.ActivatePolicyRequest) (*palyrav1.ActivatePolicyResponse, error) {
	r, err := p.admin.Activate(ctx, callerOf(ctx), req.GetVersion())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ActivatePolicyResponse{
		Version: r.Version, SnapshotDigest: r.SnapshotDigest, WasVersion: r.WasVersion, Changed: r.Changed,
		Warnings: export.Findings(r.Warnings),
	}, nil
}

// ListPolicyVersions returns one page, newest first.
func (p *policies) ListPolicyVersions(ctx context.Context, req *palyrav1.ListPolicyVersionsRequest) (*palyrav1.ListPolicyVersionsResponse, error) {
	list, next, err := p.admin.Versions(ctx, int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListPolicyVersionsResponse{NextPageToken: next}
	for _, v := range list {
		m := &palyrav1.PolicyVersion{
			Version: v.Version, FirstLoadedAt: timeMessage(v.FirstLoadedAt), InForce: v.InForce, Activated: v.Activated,
			Policies: int32(v.Policies), LoadedBy: v.LoadedBy,
		}
		for _, s := range v.Sources {
			m.Files = append(m.Files, s.Name)
		}
		res.Versions = append(res.Versions, m)
	}
	return res, nil
}

// GetSnapshot returns the configuration behind a digest.
func (p *policies) GetSnapshot(ctx context.Context, req *palyrav1.GetSnapshotRequest) (*palyrav1.GetSnapshotResponse, error) {
	content, err := p.evidence.Snapshot(ctx, req.GetSnapshotDigest())
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetSnapshotResponse{SnapshotJson: content}, nil
}

// TestPolicy runs test cases. Failing cases are part of the response, not an error.
func (p *policies) TestPolicy(ctx context.Context, req *palyrav1.TestPolicyRequest) (*palyrav1.TestPolicyResponse, error) {
	report, err := p.admin.Test(ctx, export.Sources(req.GetSources()), export.Sources(req.GetTests()))
	if err != nil {
		return nil, err
	}
	return export.Tests(report), nil
}
