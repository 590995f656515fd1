package clitest

import (
	"bytes"
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// SkillName is the id of the one installed skill, and SkillKey the id of the key that signed it.
const (
	SkillName = "notebook"
	SkillKey  = "SHA256:9rkGM1YJhGhTBKCl6GBnPp8bVnQCmYpPvx9uS2WX7aI"
)

// Skills has the requests to SkillService, and the inspection result of packages.
type Skills struct {
	// Staged are the completely uploaded packages, by digest.
	Staged map[string][]byte
	parts  map[string][]byte
	// Installed are the digests of installed packages.
	Installed []string
	Statuses  []*palyrav1.SetSkillStatusRequest
	Removed   []*palyrav1.RemoveSkillRequest
	Trusted   []*palyrav1.TrustPublisherRequest
	// KnownPublisher is true if the publisher's key is pinned, and Update if the package replaces a
	// version. Problem is the reason why the package cannot be installed.
	KnownPublisher, Update bool
	Problem                string
}

type fakeSkills struct{ f *Gateway }

func someManifest(version string) *palyrav1.SkillManifest {
	return &palyrav1.SkillManifest{
		Id: SkillName, Version: version, Publisher: "example.org", Name: "Notebook", Description: "Keeps notes, and looks things up.\x1b[2J", License: "MIT",
		Homepage: "https://example.org/notebook", Interface: "0.1.0", Quotas: &palyrav1.SkillQuotas{OutputBytes: 65536, Uses: 20},
		Tools: []*palyrav1.SkillTool{
			{Name: SkillName + "/count", Id: "count", Description: "Counts words.", Module: "modules/count.wasm", Fuel: 10_000_000, Risk: 50, Capabilities: &palyrav1.SkillCapabilities{}},
			{
				Name: SkillName + "/note", Id: "note", Description: "Keeps a note.", Module: "modules/note.wasm", Fuel: 200_000_000, Risk: 60, Features: []string{"simd"},
				Capabilities: &palyrav1.SkillCapabilities{
					Http:         []string{"api.example.org:443", "*"},
					Secrets:      []*palyrav1.SkillSecret{{Name: "global/notes", Use: "placeholder"}, {Name: "global/signing", Use: "read"}},
					StorageBytes: 1 << 20, Channels: []string{"team"}, Clock: true, Random: true,
				},
			},
		},
	}
}

func someSkill() *palyrav1.Skill {
	return &palyrav1.Skill{
		Skill: SkillName, Version: "1.1.0", Publisher: "example.org", KeyId: SkillKey, Digest: "sha256:aa", Status: palyrav1.SkillStatus_SKILL_STATUS_ACTIVE, Current: true,
		InstalledBy: "user:ada", InstalledAt: timestamppb.New(Now.Add(-48 * time.Hour)), ChangedBy: "user:ada", ChangedAt: timestamppb.New(Now.Add(-48 * time.Hour)),
		Manifest: someManifest("1.1.0"),
	}
}

func oldSkill() *palyrav1.Skill {
	s := someSkill()
	s.Version, s.Manifest, s.Digest, s.Current = "1.0.0", someManifest("1.0.0"), "sha256:bb", false
	s.Status, s.Why, s.ChangedBy, s.ChangedAt = palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED, "it answers what nobody asked", "user:bob", timestamppb.New(Now.Add(-time.Hour))
	return s
}

func noSkill(name string) error {
	if name == SkillName {
		return nil
	}
	return GatewayError(connect.CodeNotFound, reason.NotFound, "skill "+name+" not found", nil)
}

func (s fakeSkills) StageSkill(_ context.Context, req *palyrav1.StageSkillRequest) (*palyrav1.StageSkillResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	k := &s.f.Skills
	if k.Staged == nil {
		k.Staged, k.parts = map[string][]byte{}, map[string][]byte{}
	}
	if int64(len(k.parts[req.GetDigest()])) != req.GetOffset() {
		return nil, GatewayError(connect.CodeInvalidArgument, reason.InvalidInput, "the part does not follow", nil)
	}
	all := append(bytes.Clone(k.parts[req.GetDigest()]), req.GetData()...)
	if k.parts[req.GetDigest()] = all; int64(len(all)) == req.GetSize() {
		if canonical.Digest(all) != req.GetDigest() {
			return nil, GatewayError(connect.CodeInvalidArgument, reason.DigestMismatch, "the parts are another file", nil)
		}
		k.Staged[req.GetDigest()] = all
		delete(k.parts, req.GetDigest())
	}
	return &palyrav1.StageSkillResponse{Received: int64(len(all))}, nil
}

func (s fakeSkills) InspectSkill(_ context.Context, req *palyrav1.InspectSkillRequest) (*palyrav1.InspectSkillResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	k := &s.f.Skills
	if k.Staged[req.GetDigest()] == nil {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "no such package was brought", nil)
	}
	seen := &palyrav1.InspectSkillResponse{
		Digest: req.GetDigest(), Manifest: someManifest("1.2.0"), KeyId: SkillKey, PublicKey: make([]byte, 32), NewPublisher: !k.KnownPublisher,
		Gains:    []string{"requests to api.example.org:443"},
		Findings: []*palyrav1.SkillFinding{{Severity: "warning", Code: "SKILL_SECRET_READ", About: "note", What: "its module would receive the value of the secret \"global/signing\"", Remedy: "Ask whether a placeholder would do."}},
	}
	if k.Update {
		seen.Replaces = someSkill()
	}
	if seen.Problem = k.Problem; k.Problem != "" {
		seen.ProblemCode, seen.Remedy = string(reason.VerificationFailed), "Get it anew."
	}
	return seen, nil
}

func (s fakeSkills) InstallSkill(_ context.Context, req *palyrav1.InstallSkillRequest) (*palyrav1.InstallSkillResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.Skills.Installed = append(s.f.Skills.Installed, req.GetDigest())
	made := someSkill()
	made.Version, made.Manifest, made.Digest = "1.2.0", someManifest("1.2.0"), "sha256:cc"
	return &palyrav1.InstallSkillResponse{Skill: made}, nil
}

func (fakeSkills) ListSkills(context.Context, *palyrav1.ListSkillsRequest) (*palyrav1.ListSkillsResponse, error) {
	return &palyrav1.ListSkillsResponse{Skills: []*palyrav1.Skill{someSkill(), oldSkill()}}, nil
}

func (fakeSkills) GetSkill(_ context.Context, req *palyrav1.GetSkillRequest) (*palyrav1.GetSkillResponse, error) {
	reply := &palyrav1.GetSkillResponse{Skill: someSkill(), Versions: []string{"1.1.0", "1.0.0"}}
	if req.GetVersion() == "1.0.0" {
		reply.Skill, reply.Problem, reply.Remedy = oldSkill(), "the skill notebook 1.0.0 is quarantined", "Enable it with `palyra skills enable notebook@1.0.0`."
	}
	reply.Skill.Manifest.Tools[0].InputSchemaJson = []byte(`{"type":"object"}`)
	return reply, noSkill(req.GetSkill())
}

func (s fakeSkills) SetSkillStatus(_ context.Context, req *palyrav1.SetSkillStatusRequest) (*palyrav1.SetSkillStatusResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.Skills.Statuses = append(s.f.Skills.Statuses, req)
	is := someSkill()
	is.Status, is.Why, is.ChangedAt = req.GetStatus(), req.GetReason(), timestamppb.New(Now)
	return &palyrav1.SetSkillStatusResponse{Skill: is}, noSkill(req.GetSkill())
}

func (s fakeSkills) RemoveSkill(_ context.Context, req *palyrav1.RemoveSkillRequest) (*palyrav1.RemoveSkillResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.Skills.Removed = append(s.f.Skills.Removed, req)
	return &palyrav1.RemoveSkillResponse{Versions: []string{"1.1.0", "1.0.0"}}, noSkill(req.GetSkill())
}

func somePublisher() *palyrav1.SkillPublisher {
	return &palyrav1.SkillPublisher{Name: "example.org", KeyId: SkillKey, PublicKey: make([]byte, 32), FirstUse: true, AddedBy: "user:ada", AddedAt: timestamppb.New(Now.Add(-48 * time.Hour))}
}

func (fakeSkills) ListPublishers(context.Context, *palyrav1.ListPublishersRequest) (*palyrav1.ListPublishersResponse, error) {
	return &palyrav1.ListPublishersResponse{Publishers: []*palyrav1.SkillPublisher{somePublisher()}}, nil
}

func (s fakeSkills) TrustPublisher(_ context.Context, req *palyrav1.TrustPublisherRequest) (*palyrav1.TrustPublisherResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.Skills.Trusted = append(s.f.Skills.Trusted, req)
	p := somePublisher()
	p.Name, p.PublicKey, p.FirstUse = req.GetName(), req.GetPublicKey(), false
	return &palyrav1.TrustPublisherResponse{Publisher: p}, nil
}

func (fakeSkills) DistrustPublisher(_ context.Context, req *palyrav1.DistrustPublisherRequest) (*palyrav1.DistrustPublisherResponse, error) {
	if req.GetName() != "example.org" {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "publisher "+req.GetName()+" not found", nil)
	}
	return &palyrav1.DistrustPublisherResponse{Skills: []*palyrav1.Skill{oldSkill()}}, nil
}
