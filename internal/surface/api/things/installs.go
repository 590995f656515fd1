package things

import (
	"context"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// InstallService implements the InstallService of the API. All fields are required.
type InstallService struct {
	Installed *watch.Watcher
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// RegisterInstalled registers an installation for monitoring.
func (s *InstallService) RegisterInstalled(ctx context.Context, req *palyrav1.RegisterInstalledRequest) (*palyrav1.RegisterInstalledResponse, error) {
	if _, err := ulid.ParseStrict(req.GetInstallationId()); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%q is not a valid ULID", req.GetInstallationId())
	}
	i := watch.Installation{
		ID: req.GetInstallationId(), Agent: req.GetAgent(), Scope: req.GetScope(), Transport: req.GetTransport(), By: s.Caller(ctx).Principal,
	}
	for _, e := range req.GetEntries() {
		i.Entries = append(i.Entries, watch.Entry{Path: e.GetPath(), Format: files.Format(e.GetFormat()), Keys: e.GetKeys(), InList: e.GetInList(), Digest: e.GetDigest()})
	}
	i, err := s.Installed.Register(ctx, i)
	if err != nil {
		return nil, err
	}
	return &palyrav1.RegisterInstalledResponse{Installation: installMessage(i)}, nil
}

// ListInstalled checks the files and returns all installations.
func (s *InstallService) ListInstalled(ctx context.Context, _ *palyrav1.ListInstalledRequest) (*palyrav1.ListInstalledResponse, error) {
	list, err := s.Installed.List(ctx)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListInstalledResponse{}
	for _, i := range list {
		res.Installations = append(res.Installations, installMessage(i))
	}
	return res, nil
}

// RemoveInstalled ends the monitoring of an installation.
func (s *InstallService) RemoveInstalled(ctx context.Context, req *palyrav1.RemoveInstalledRequest) (*palyrav1.RemoveInstalledResponse, error) {
	removed, err := s.Installed.Remove(ctx, s.Caller(ctx).Principal, req.GetInstallationId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RemoveInstalledResponse{Removed: removed}, nil
}

func installMessage(i watch.Installation) *palyrav1.Installation {
	m := &palyrav1.Installation{
		InstallationId: i.ID, Agent: i.Agent, Scope: i.Scope, Transport: i.Transport, RegisteredBy: i.By.String(), RegisteredAt: timestamppb.New(i.At),
	}
	for _, e := range i.Entries {
		entry := &palyrav1.InstalledEntry{Path: e.Path, Format: string(e.Format), Keys: e.Keys, InList: e.InList, Digest: e.Digest, State: string(e.State)}
		if !e.ChangedAt.IsZero() {
			entry.ChangedAt = timestamppb.New(e.ChangedAt)
		}
		m.Entries = append(m.Entries, entry)
	}
	return m
}
