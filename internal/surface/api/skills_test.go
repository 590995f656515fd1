package api_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/store/sqlite/skills"
	"palyra/internal/store/sqlite/sqlitetest"
)

// openSkills returns an empty registry of skills.
func (w *world) openSkills() *registry.Registry {
	w.t.Helper()
	w.skillsDir = filepath.Join(w.t.TempDir(), "skills")
	return must.Get(registry.New(w.t.Context(), registry.Config{Guard: change.Unguarded,
		Store: skills.New(sqlitetest.Open(w.t)), Dir: w.skillsDir, Limits: skill.DefaultLimits(), Now: w.now,
	}))(w.t)
}

func (c *client) skills() palyrav1connect.SkillServiceClient {
	return palyrav1connect.NewSkillServiceClient(c.http, c.w.url)
}

// installSkill stages a version of the skill notes in small parts, and installs it.
func installSkill(t *testing.T, s palyrav1connect.SkillServiceClient, version string) *palyrav1.Skill {
	t.Helper()
	data := registrytest.Package(t, registrytest.With(t, registrytest.Manifest, `version = "1.0.0"`, `version = "`+version+`"`), registrytest.Key("first"))
	digest := canonical.Digest(data)
	for at := 0; at < len(data); {
		part := data[at:min(at+1000, len(data))]
		reply := must.Get(s.StageSkill(t.Context(), &palyrav1.StageSkillRequest{Digest: digest, Size: int64(len(data)), Offset: int64(at), Data: part}))(t)
		if at += len(part); reply.GetReceived() != int64(at) {
			t.Fatalf("%d bytes were received of %d", reply.GetReceived(), at)
		}
	}
	seen := must.Get(s.InspectSkill(t.Context(), &palyrav1.InspectSkillRequest{Digest: digest}))(t)
	if seen.GetProblem() != "" || seen.GetManifest().GetVersion() != version || len(seen.GetPublicKey()) != ed25519.PublicKeySize || !strings.HasPrefix(seen.GetKeyId(), "SHA256:") {
		t.Errorf("inspected %v", seen)
	}
	return must.Get(s.InstallSkill(t.Context(), &palyrav1.InstallSkillRequest{Digest: digest}))(t).GetSkill()
}

// TestSkills: skills can be staged, inspected, installed and removed over the API.
func TestSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.alice.skills()
	made := installSkill(t, s, "1.0.0")
	if !made.GetCurrent() || made.GetStatus() != palyrav1.SkillStatus_SKILL_STATUS_ACTIVE || made.GetInstalledBy() != "user:alice" || string(made.GetManifest().GetTools()[0].GetInputSchemaJson()) != `{"type": "object"}` {
		t.Errorf("installed %v", made)
	}
	again := must.Get(s.InspectSkill(t.Context(), &palyrav1.InspectSkillRequest{Digest: stageSkill(t, s, "1.0.0")}))(t)
	if again.GetProblemCode() != string(reason.AlreadyExists) || again.GetProblem() == "" || again.GetNewPublisher() || again.GetReplaces().GetVersion() != "1.0.0" {
		t.Errorf("inspected again: %v", again)
	}
	installSkill(t, s, "1.1.0")
	list := must.Get(s.ListSkills(t.Context(), &palyrav1.ListSkillsRequest{}))(t).GetSkills()
	if len(list) != 2 || list[0].GetVersion() != "1.1.0" || !list[0].GetCurrent() || list[1].GetCurrent() || list[0].GetManifest().GetTools()[0].GetInputSchemaJson() != nil {
		t.Errorf("listed %v", list)
	}
	get := func(version string) *palyrav1.GetSkillResponse {
		t.Helper()
		return must.Get(s.GetSkill(t.Context(), &palyrav1.GetSkillRequest{Skill: "notes", Version: version}))(t)
	}
	if one := get(""); one.GetSkill().GetVersion() != "1.1.0" || one.GetProblem() != "" || !slices.Equal(one.GetVersions(), []string{"1.1.0", "1.0.0"}) {
		t.Errorf("the current one: %v", one)
	}
	if one := get("1.0.0"); !strings.Contains(one.GetProblem(), "1.1.0") || !strings.Contains(one.GetRemedy(), "palyra skills enable notes@1.0.0") {
		t.Errorf("the older one: %v", one)
	}
	must.Get(s.SetSkillStatus(t.Context(), &palyrav1.SetSkillStatusRequest{Skill: "notes", Status: palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED, Reason: "odd ghp_" + strings.Repeat("aB3", 12)}))(t)
	if one := get(""); !strings.Contains(one.GetProblem(), "quarantined") || strings.Contains(one.GetSkill().GetWhy(), "ghp_") || !strings.HasPrefix(one.GetSkill().GetWhy(), "odd") {
		t.Errorf("quarantined: %v", one)
	}
	_, err := s.SetSkillStatus(t.Context(), &palyrav1.SetSkillStatusRequest{Skill: "notes"})
	wantError(t, "no status", err, reason.InvalidInput)
	must.Get(s.SetSkillStatus(t.Context(), &palyrav1.SetSkillStatusRequest{Skill: "notes", Version: "1.0.0", Status: palyrav1.SkillStatus_SKILL_STATUS_ACTIVE}))(t)
	w.corruptSkills()
	if one := get(""); !strings.Contains(one.GetProblem(), "does not run") || one.GetSkill().GetProblem() == "" || strings.Contains(one.GetProblem(), w.skillsDir) {
		t.Errorf("spoilt: %v", one)
	}
	if p := must.Get(s.ListPublishers(t.Context(), &palyrav1.ListPublishersRequest{}))(t).GetPublishers(); len(p) != 1 || !p[0].GetFirstUse() || p[0].GetName() != "example.org" {
		t.Errorf("publishers %v", p)
	}
	if gone := must.Get(s.DistrustPublisher(t.Context(), &palyrav1.DistrustPublisherRequest{Name: "example.org"}))(t).GetSkills(); len(gone) != 2 || gone[0].GetStatus() != palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED {
		t.Errorf("distrusted: %v", gone)
	}
	other, _ := registrytest.Key("second").Public().(ed25519.PublicKey)
	if p := must.Get(s.TrustPublisher(t.Context(), &palyrav1.TrustPublisherRequest{Name: "example.org", PublicKey: other}))(t).GetPublisher(); p.GetFirstUse() || p.GetDistrusted() || !bytes.Equal(p.GetPublicKey(), other) {
		t.Errorf("trusted %v", p)
	}
	if gone := must.Get(s.RemoveSkill(t.Context(), &palyrav1.RemoveSkillRequest{Skill: "notes"}))(t).GetVersions(); !slices.Equal(gone, []string{"1.0.0", "1.1.0"}) {
		t.Errorf("removed %v: the current one goes first", gone)
	}
	_, err = s.RemoveSkill(t.Context(), &palyrav1.RemoveSkillRequest{Skill: "notes"})
	wantError(t, "removed again", err, reason.NotFound)
}

// stageSkill stages a version of the skill notes in one part.
func stageSkill(t *testing.T, s palyrav1connect.SkillServiceClient, version string) string {
	t.Helper()
	data := registrytest.Package(t, registrytest.With(t, registrytest.Manifest, `version = "1.0.0"`, `version = "`+version+`"`), registrytest.Key("first"))
	digest := canonical.Digest(data)
	must.Get(s.StageSkill(t.Context(), &palyrav1.StageSkillRequest{Digest: digest, Size: int64(len(data)), Data: data}))(t)
	return digest
}

// corruptSkills overwrites every installed package.
func (w *world) corruptSkills() {
	w.t.Helper()
	for _, e := range must.Get(os.ReadDir(w.skillsDir))(w.t) {
		path := filepath.Join(w.skillsDir, e.Name())
		must.Do(w.t, os.Chmod(path, 0o600))
		must.Do(w.t, os.WriteFile(path, []byte("something else"), 0o600))
	}
}
