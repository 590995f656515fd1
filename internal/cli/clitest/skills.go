package clitest

import (
	"bytes"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// SkillName is the id of the one installed skill, and SkillKey the id of the key that signed it.
const (
	SkillName = "notebook"
	SkillKey  = "SHA256:9rkGM1YJhGhTBKCl6GBnPp8bVnQCmYpPvx9uS2WX7aI"
)

// Skills are the uploaded packages, and their inspection.
type Skills struct {
	// Staged are the completely uploaded packages, by digest.
	Staged map[string][]byte
	parts  map[string][]byte
	// KnownPublisher is true if the publisher's key is pinned, and Update if the package replaces a
	// version. Problem is the reason why the package cannot be installed.
	KnownPublisher, Update bool
	Problem                string
}

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
		InstalledBy: "user:ada", InstalledAt: ago(48 * time.Hour), ChangedBy: "user:ada", ChangedAt: ago(48 * time.Hour),
		Manifest: someManifest("1.1.0"),
	}
}

func oldSkill() *palyrav1.Skill {
	s := someSkill()
	s.Version, s.Manifest, s.Digest, s.Current = "1.0.0", someManifest("1.0.0"), "sha256:bb", false
	s.Status, s.Why, s.ChangedBy, s.ChangedAt = palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED, "it answers what nobody asked", "user:bob", ago(time.Hour)
	return s
}

func somePublisher() *palyrav1.SkillPublisher {
	return &palyrav1.SkillPublisher{Name: "example.org", KeyId: SkillKey, PublicKey: make([]byte, 32), FirstUse: true, AddedBy: "user:ada", AddedAt: ago(48 * time.Hour)}
}

func serveSkills(f *Gateway) {
	made := someSkill()
	made.Version, made.Manifest, made.Digest = "1.2.0", someManifest("1.2.0"), "sha256:cc"
	f.reply(
		&palyrav1.InstallSkillResponse{Skill: made},
		&palyrav1.ListSkillsResponse{Skills: []*palyrav1.Skill{someSkill(), oldSkill()}},
		&palyrav1.ListPublishersResponse{Publishers: []*palyrav1.SkillPublisher{somePublisher()}},
		&palyrav1.TrustPublisherResponse{Publisher: somePublisher()},
	)
	f.replyAbout(SkillName, "skill %s not found",
		&palyrav1.GetSkillResponse{Skill: someSkill(), Versions: []string{"1.1.0", "1.0.0"}},
		&palyrav1.SetSkillStatusResponse{Skill: someSkill()},
		&palyrav1.RemoveSkillResponse{Versions: []string{"1.1.0", "1.0.0"}},
	)
	f.replyAbout(somePublisher().GetName(), "publisher %s not found", &palyrav1.DistrustPublisherResponse{Skills: []*palyrav1.Skill{oldSkill()}})
	edit(f, func(req *palyrav1.GetSkillRequest, res *palyrav1.GetSkillResponse) {
		if req.GetVersion() == "1.0.0" {
			res.Skill, res.Problem, res.Remedy = oldSkill(), "the skill notebook 1.0.0 is quarantined", "Enable it with `palyra skills enable notebook@1.0.0`."
		}
		res.Skill.Manifest.Tools[0].InputSchemaJson = []byte(`{"type":"object"}`)
	})
	edit(f, func(req *palyrav1.SetSkillStatusRequest, res *palyrav1.SetSkillStatusResponse) {
		res.Skill.Status, res.Skill.Why, res.Skill.ChangedAt = req.GetStatus(), req.GetReason(), now
	})
	edit(f, func(req *palyrav1.TrustPublisherRequest, res *palyrav1.TrustPublisherResponse) {
		res.Publisher.Name, res.Publisher.PublicKey, res.Publisher.FirstUse = req.GetName(), req.GetPublicKey(), false
	})
	on(f, f.stageSkill)
	on(f, f.inspectSkill)
}

func (f *Gateway) stageSkill(req *palyrav1.StageSkillRequest) (*palyrav1.StageSkillResponse, error) {
	k := &f.Skills
	if k.Staged == nil {
		k.Staged, k.parts = map[string][]byte{}, map[string][]byte{}
	}
	if int64(len(k.parts[req.GetDigest()])) != req.GetOffset() {
		return nil, reason.Errorf(reason.InvalidInput, "the part does not follow")
	}
	all := append(bytes.Clone(k.parts[req.GetDigest()]), req.GetData()...)
	if k.parts[req.GetDigest()] = all; int64(len(all)) == req.GetSize() {
		if canonical.Digest(all) != req.GetDigest() {
			return nil, reason.Errorf(reason.DigestMismatch, "the parts are another file")
		}
		k.Staged[req.GetDigest()] = all
		delete(k.parts, req.GetDigest())
	}
	return &palyrav1.StageSkillResponse{Received: int64(len(all))}, nil
}

func (f *Gateway) inspectSkill(req *palyrav1.InspectSkillRequest) (*palyrav1.InspectSkillResponse, error) {
	k := &f.Skills
	if k.Staged[req.GetDigest()] == nil {
		return nil, notFound("no such package was brought")
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
