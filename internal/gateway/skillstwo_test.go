package gateway

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/surface/api"
)

// skillFile returns a package of the skill notes, signed with the key of a word. pieces are
// replacements in its manifest: old, new, old, new.
func skillFile(t *testing.T, version, key string, pieces ...string) []byte {
	t.Helper()
	manifest := registrytest.With(t, registrytest.Manifest, append([]string{`version = "1.0.0"`, `version = "` + version + `"`}, pieces...)...)
	return registrytest.Package(t, manifest, registrytest.Key(key))
}

// moreHosts are replacements with which the tool requests a host.
var moreHosts = []string{"[tools.capabilities]", "[tools.capabilities]\nhttp = [\"api.example.org:443\"]", "[[tools]]", "[compatibility]\ninterface = \"0.1.0\"\n\n[[tools]]"}

// stage uploads a package to the gateway, and returns its digest.
func (p person) stage(data []byte) string {
	p.t.Helper()
	digest := canonical.Digest(data)
	must.Get(p.skills.StageSkill(p.t.Context(), &palyrav1.StageSkillRequest{Digest: digest, Size: int64(len(data)), Data: data}))(p.t)
	return digest
}

func installSkill(digest string) func(context.Context, person) error {
	return func(ctx context.Context, p person) error {
		_, err := p.skills.InstallSkill(ctx, &palyrav1.InstallSkillRequest{Digest: digest})
		return api.ReasonOf(err)
	}
}

func enable(version string) func(context.Context, person) error {
	return func(ctx context.Context, p person) error {
		_, err := p.skills.SetSkillStatus(ctx, &palyrav1.SetSkillStatusRequest{Skill: "notes", Version: version, Status: palyrav1.SkillStatus_SKILL_STATUS_ACTIVE})
		return api.ReasonOf(err)
	}
}

func trustKey(name, key string) func(context.Context, person) error {
	public, _ := registrytest.Key(key).Public().(ed25519.PublicKey)
	return func(ctx context.Context, p person) error {
		_, err := p.skills.TrustPublisher(ctx, &palyrav1.TrustPublisherRequest{Name: name, PublicKey: public})
		return api.ReasonOf(err)
	}
}

func (p person) setStatus(s palyrav1.SkillStatus, version string) error {
	_, err := p.skills.SetSkillStatus(p.t.Context(), &palyrav1.SetSkillStatusRequest{Skill: "notes", Version: version, Status: s, Reason: "because"})
	return api.ReasonOf(err)
}

// runs returns the active version of the skill notes, or "".
func (p person) runs() string {
	p.t.Helper()
	for _, s := range must.Get(p.skills.ListSkills(p.t.Context(), &palyrav1.ListSkillsRequest{}))(p.t).GetSkills() {
		if s.GetCurrent() && s.GetStatus() == palyrav1.SkillStatus_SKILL_STATUS_ACTIVE {
			return s.GetVersion()
		}
	}
	return ""
}

func (p person) wantRuns(version, when string) {
	p.t.Helper()
	if is := p.runs(); is != version {
		p.t.Errorf("%s: %q runs, want %q", when, is, version)
	}
}

// wording returns all text of an approval request.
func wording(w *waiting) string {
	prompt := w.question.GetPrompt()
	return strings.Join(append(prompt.GetNotes(), prompt.GetTitle(), prompt.GetSummary()), "\n")
}

// TestSkillsTakeTwo: a first installation, and an update that requests more capabilities,
// require a second person. The approval request names the publisher's key and the capabilities.
// Until then the previous version stays active. Updates without new capabilities, and disabling
// a skill, require no approval.
func TestSkillsTakeTwo(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	local, bob := d.as("local"), d.as("bob")
	w := bob.ask("local", installSkill(local.stage(skillFile(t, "1.0.0", "first"))))
	for _, want := range []string{"notes@1.0.0", "example.org", "SHA256:", "is new to this gateway", "request no capabilities"} {
		if !strings.Contains(wording(w), want) {
			t.Errorf("the question lacks %q:\n%s", want, wording(w))
		}
	}
	local.wantRuns("", "before a yes")
	must.Do(t, bob.vote(w.question, false))
	if err := <-w.done; reason.Of(err) != reason.ApprovalDenied {
		t.Errorf("after a no: %v", err)
	}
	local.wantRuns("", "after a no")
	w = bob.ask("local", installSkill(local.stage(skillFile(t, "1.0.1", "first"))))
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	local.wantRuns("1.0.1", "installed")

	asked := len(bob.events(event.GatewayChange))
	must.Do(t, installSkill(local.stage(skillFile(t, "1.1.0", "first")))(t.Context(), local))
	local.wantRuns("1.1.0", "an update that asks for nothing more")
	must.Do(t, local.setStatus(palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED, ""))
	local.wantRuns("", "quarantined")
	if n := len(bob.events(event.GatewayChange)); n != asked {
		t.Errorf("%d questions were asked about that", n-asked)
	}
	// An update of a quarantined skill requires an approval.
	w = bob.ask("local", installSkill(local.stage(skillFile(t, "1.1.1", "first"))))
	if !strings.Contains(wording(w), "quarantined") {
		t.Errorf("the question does not say what it replaces:\n%s", wording(w))
	}
	w.withdraw()
	w = bob.ask("local", enable("1.1.0"))
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	local.wantRuns("1.1.0", "enabled")

	more := local.stage(skillFile(t, "1.2.0", "first", moreHosts...))
	w = bob.ask("local", installSkill(more))
	if !strings.Contains(wording(w), "reach api.example.org:443") {
		t.Errorf("the question does not say what is asked for:\n%s", wording(w))
	}
	local.wantRuns("1.1.0", "while people are asked about the update")
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	local.wantRuns("1.2.0", "updated")

	// A package signed with another key is refused without an approval request.
	err := installSkill(local.stage(skillFile(t, "1.3.0", "second", moreHosts...)))(t.Context(), local)
	if reason.Of(err) != reason.VerificationFailed {
		t.Errorf("another key: %v", err)
	}
	if err := trustKey("example.org", "second")(t.Context(), local); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("another key in place of the pinned one: %v", err)
	}
	must.Get(local.skills.DistrustPublisher(t.Context(), &palyrav1.DistrustPublisherRequest{Name: "example.org"}))(t)
	local.wantRuns("", "distrusted")
	gone := must.Get(local.skills.RemoveSkill(t.Context(), &palyrav1.RemoveSkillRequest{Skill: "notes"}))(t).GetVersions()
	if !slices.Equal(gone, []string{"1.2.0", "1.1.0", "1.0.1"}) {
		t.Errorf("removed %v", gone)
	}
}

// TestApprovedUpdateOverAnother: an approval of an update is valid only for the version that
// was installed at the request.
func TestApprovedUpdateOverAnother(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	local, bob := d.as("local"), d.as("bob")
	w := bob.ask("local", installSkill(local.stage(skillFile(t, "1.0.0", "first"))))
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	w = bob.ask("local", installSkill(local.stage(skillFile(t, "2.0.0", "first", moreHosts...))))
	must.Do(t, local.setStatus(palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED, ""))
	must.Do(t, bob.vote(w.question, true))
	if err := <-w.done; reason.Of(err) != reason.BindingMismatch {
		t.Errorf("over a version that was quarantined meanwhile: %v", err)
	}
	local.wantRuns("", "quarantined")
}
