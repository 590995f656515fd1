package things

import (
	"context"
	"crypto/ed25519"
	"errors"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
)

// SkillManager manages skills. It is implemented by registry.Registry.
type SkillManager interface {
	SkillPackages
	InstalledSkills
	SkillPublishers
}

// SkillPackages receives and installs packages.
type SkillPackages interface {
	Stage(ctx context.Context, by access.Caller, p registry.Part) (received int64, err error)
	Inspect(ctx context.Context, digest string) (registry.Inspection, error)
	// Prepare compiles the modules of a staged package, which can be slow.
	Prepare(ctx context.Context, digest string) error
	Install(ctx context.Context, by access.Caller, digest string) (registry.Installed, error)
}

// InstalledSkills has the installed versions.
type InstalledSkills interface {
	List() []registry.Installed
	Get(name, version string) (registry.Installed, error)
	// Audit inspects a version again; problem is the reason why its tools cannot be called.
	Audit(ctx context.Context, name, version string) (findings []skill.Finding, problem, err error)
	SetStatus(ctx context.Context, by access.Caller, name, version string, s registry.Status, why string) (registry.Installed, error)
	Remove(ctx context.Context, by access.Caller, name, version string) error
}

// SkillPublishers has the pinned keys of publishers.
type SkillPublishers interface {
	Publishers() []registry.Publisher
	Trust(ctx context.Context, by access.Caller, p registry.Publisher) error
	Distrust(ctx context.Context, by access.Caller, name string) error
}

// SkillService implements the SkillService of the API. All fields are required.
type SkillService struct {
	Manager SkillManager
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// StageSkill stores a part of a package.
func (s *SkillService) StageSkill(ctx context.Context, req *palyrav1.StageSkillRequest) (*palyrav1.StageSkillResponse, error) {
	received, err := s.Manager.Stage(ctx, s.Caller(ctx), registry.Part{Digest: req.GetDigest(), Size: req.GetSize(), Offset: req.GetOffset(), Data: req.GetData()})
	return &palyrav1.StageSkillResponse{Received: received}, err
}

// InspectSkill inspects a staged package.
func (s *SkillService) InspectSkill(ctx context.Context, req *palyrav1.InspectSkillRequest) (*palyrav1.InspectSkillResponse, error) {
	in, err := s.Manager.Inspect(ctx, req.GetDigest())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.InspectSkillResponse{
		Digest: in.Digest, Manifest: manifest(in.Manifest, true), KeyId: in.Signer.KeyID, PublicKey: in.Signer.PublicKey,
		NewPublisher: in.NewPublisher, Gains: in.Gains, Findings: findings(in.Findings),
	}
	if in.Replaces != nil {
		res.Replaces = skillMessage(*in.Replaces, false)
	}
	if res.Problem, res.Remedy = problem(in.Installable); in.Installable != nil {
		res.ProblemCode = string(reason.Of(in.Installable))
	}
	return res, nil
}

// InstallSkill installs a staged package.
func (s *SkillService) InstallSkill(ctx context.Context, req *palyrav1.InstallSkillRequest) (*palyrav1.InstallSkillResponse, error) {
	made, err := s.Manager.Install(ctx, s.Caller(ctx), req.GetDigest())
	if err != nil {
		return nil, err
	}
	return &palyrav1.InstallSkillResponse{Skill: skillMessage(made, true)}, nil
}

// ListSkills lists all versions.
func (s *SkillService) ListSkills(context.Context, *palyrav1.ListSkillsRequest) (*palyrav1.ListSkillsResponse, error) {
	return &palyrav1.ListSkillsResponse{Skills: messages(s.Manager.List())}, nil
}

// GetSkill returns one version of a skill.
func (s *SkillService) GetSkill(ctx context.Context, req *palyrav1.GetSkillRequest) (*palyrav1.GetSkillResponse, error) {
	one, err := s.Manager.Get(req.GetSkill(), req.GetVersion())
	if err != nil {
		return nil, err
	}
	found, stopped, err := s.Manager.Audit(ctx, one.Skill, one.Version)
	if known := (*reason.Error)(nil); err == nil && stopped != nil && !errors.As(stopped, &known) {
		err = stopped
	}
	if err != nil {
		return nil, err
	}
	// If the version was just found damaged, its status changed too.
	if again, err := s.Manager.Get(one.Skill, one.Version); err == nil {
		one = again
	}
	res := &palyrav1.GetSkillResponse{Skill: skillMessage(one, true), Findings: findings(found)}
	res.Problem, res.Remedy = problem(stopped)
	for _, i := range s.Manager.List() {
		if i.Skill == one.Skill {
			res.Versions = append(res.Versions, i.Version)
		}
	}
	return res, nil
}

// statuses maps the API's statuses to the registry's.
var statuses = map[palyrav1.SkillStatus]registry.Status{
	palyrav1.SkillStatus_SKILL_STATUS_ACTIVE:      registry.Active,
	palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED: registry.Quarantined,
	palyrav1.SkillStatus_SKILL_STATUS_DISABLED:    registry.Disabled,
}

// SetSkillStatus sets the status of a version.
func (s *SkillService) SetSkillStatus(ctx context.Context, req *palyrav1.SetSkillStatusRequest) (*palyrav1.SetSkillStatusResponse, error) {
	status, known := statuses[req.GetStatus()]
	if !known {
		return nil, reason.Errorf(reason.InvalidInput, "status is required").WithRemedy("Name active, quarantined or disabled.")
	}
	is, err := s.Manager.SetStatus(ctx, s.Caller(ctx), req.GetSkill(), req.GetVersion(), status, req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.SetSkillStatusResponse{Skill: skillMessage(is, true)}, nil
}

// RemoveSkill removes a version, or all versions. It removes the current version first, so that
// a failure in between leaves a skill that cannot be called.
func (s *SkillService) RemoveSkill(ctx context.Context, req *palyrav1.RemoveSkillRequest) (*palyrav1.RemoveSkillResponse, error) {
	versions := []string{req.GetVersion()}
	if req.GetVersion() == "" {
		if versions = s.versionsOf(req.GetSkill()); len(versions) == 0 {
			_, err := s.Manager.Get(req.GetSkill(), "")
			return nil, err
		}
	}
	for _, version := range versions {
		if err := s.Manager.Remove(ctx, s.Caller(ctx), req.GetSkill(), version); err != nil {
			return nil, err
		}
	}
	return &palyrav1.RemoveSkillResponse{Versions: versions}, nil
}

// versionsOf returns the versions of a skill, the current one first.
func (s *SkillService) versionsOf(name string) (list []string) {
	for _, i := range s.Manager.List() {
		switch {
		case i.Skill != name:
		case i.Current:
			list = append([]string{i.Version}, list...)
		default:
			list = append(list, i.Version)
		}
	}
	return list
}

// ListPublishers lists the publishers.
func (s *SkillService) ListPublishers(context.Context, *palyrav1.ListPublishersRequest) (*palyrav1.ListPublishersResponse, error) {
	res := &palyrav1.ListPublishersResponse{}
	for _, p := range s.Manager.Publishers() {
		res.Publishers = append(res.Publishers, publisher(p))
	}
	return res, nil
}

// TrustPublisher trusts a publisher's key.
func (s *SkillService) TrustPublisher(ctx context.Context, req *palyrav1.TrustPublisherRequest) (*palyrav1.TrustPublisherResponse, error) {
	err := s.Manager.Trust(ctx, s.Caller(ctx), registry.Publisher{Name: req.GetName(), PublicKey: ed25519.PublicKey(req.GetPublicKey())})
	if err != nil {
		return nil, err
	}
	for _, p := range s.Manager.Publishers() {
		if p.Name == req.GetName() {
			return &palyrav1.TrustPublisherResponse{Publisher: publisher(p)}, nil
		}
	}
	return nil, reason.Errorf(reason.NotFound, "the publisher %s was removed again", req.GetName()).WithRemedy("`palyra skills trust list` has the publishers.")
}

// DistrustPublisher ends the trust in a publisher.
func (s *SkillService) DistrustPublisher(ctx context.Context, req *palyrav1.DistrustPublisherRequest) (*palyrav1.DistrustPublisherResponse, error) {
	if err := s.Manager.Distrust(ctx, s.Caller(ctx), req.GetName()); err != nil {
		return nil, err
	}
	var theirs []registry.Installed
	for _, i := range s.Manager.List() {
		if i.Publisher == req.GetName() {
			theirs = append(theirs, i)
		}
	}
	return &palyrav1.DistrustPublisherResponse{Skills: messages(theirs)}, nil
}

// problem returns the message and the remedy of an error.
func problem(err error) (what, remedy string) {
	if known := (*reason.Error)(nil); errors.As(err, &known) {
		return known.Message, known.NextStep()
	}
	return "", ""
}
