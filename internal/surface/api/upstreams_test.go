package api_test

import (
	"context"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream/declared"
)

// noUpstreams is an empty set of upstream servers, which internal/exec/upstream tests.
type noUpstreams struct{}

func (noUpstreams) List() []declared.State { return nil }

func (noUpstreams) Check(s declared.Server) (declared.Server, error) { return s, s.Check() }

func (noUpstreams) Resolve(context.Context, access.Caller, declared.PackageRequest) (declared.Resolution, error) {
	return declared.Resolution{}, reason.Errorf(reason.SandboxDisabled, "no sandbox is available")
}

func (n noUpstreams) Updated(name, _ string) (declared.Server, error) {
	_, err := n.Show(name)
	return declared.Server{}, err
}

func (n noUpstreams) Update(_ context.Context, _ access.Caller, name, _ string) (declared.State, error) {
	return n.Show(name)
}

func (noUpstreams) Show(name string) (declared.State, error) {
	return declared.State{}, reason.Errorf(reason.NotFound, "the upstream server %q does not exist", name)
}

func (n noUpstreams) Add(_ context.Context, _ access.Caller, s declared.Server) (declared.State, error) {
	return declared.State{Kept: declared.Kept{Server: s}}, s.Check()
}

func (n noUpstreams) Remove(_ context.Context, _ access.Caller, name string) error {
	_, err := n.Show(name)
	return err
}

func (n noUpstreams) Refresh(_ context.Context, _ access.Caller, name string) (declared.State, error) {
	return n.Show(name)
}

func (n noUpstreams) Approve(_ context.Context, _ access.Caller, name, _ string) (declared.State, error) {
	return n.Show(name)
}
