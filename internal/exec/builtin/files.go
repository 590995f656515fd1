package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// files is the common part of the file tools.
type files struct {
	set     *workspace.Set
	version string
	// policies are the settings of workspaces by name.
	policies map[string]WorkspacePolicy
}

// target is the part of the input that names a file.
type target struct {
	Path      string `json:"path"`
	Workspace string `json:"workspace"`
}

// workspaceProperty is part of the schema of every tool that uses a workspace.
const workspaceProperty = `"workspace": {"type": "string", "maxLength": 64, "description": "Name of the declared workspace. Leave it out for that of the run; without one, for the only one or the one named default."}`

func schema(required string, properties ...string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": [%s],
  "properties": {
    %s
  }
}`, required, strings.Join(properties, ",\n    ")))
}

// Risk of a call, 0 to 100; docs/tools.md has the table.
const (
	riskList       = 2
	riskRead       = 5
	riskProtected  = 20
	riskCreate     = 20
	riskChange     = 30
	riskDelete     = 45
	riskExecutable = 10
)

// fileFacts returns the facts of a call about one path; links is the number of names of the file.
func fileFacts(in, real string, links, risk int) tool.Facts {
	facts := tool.Facts{
		Workspace: in, Path: real, Protected: workspace.Protected(real),
		PathFolded: text.FoldCase(real), HardLinks: links,
		Risk: risk, SandboxTier: "builtin", SandboxLevel: "none",
	}
	if facts.Protected {
		facts.Risk = min(100, risk+riskProtected)
	}
	return facts
}

// seen is the file that a reading tool inspects. It stays open, so that the plan's facts and the
// read data are from the same file.
type seen struct {
	root *workspace.Root
	// handle is nil if the file does not exist; missing is the error then.
	handle  *workspace.Handle
	missing error
	plan    tool.Plan
}

func (s *seen) close() {
	if s.handle != nil {
		s.handle.Close()
	}
	s.root.Close()
}

// see plans a call that reads at or below one path. The caller closes the result.
func (f files) see(name, verb string, t target, risk int) (*seen, error) {
	root, err := f.set.Open(t.Workspace)
	if err != nil {
		return nil, err
	}
	s := &seen{root: root}
	err = s.find(t.Path)
	if isContentError(err) && filepath.IsLocal(t.Path) {
		s.plan.Facts.Path = path.Clean(t.Path)
		s.describe(name, verb, risk)
		err = &tool.RestrictedError{Plan: s.plan, Detail: err}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.describe(name, verb, risk)
	named := fileFacts(root.Name(), path.Clean(t.Path), 0, risk)
	s.plan.Named = &named
	return s, nil
}

// isContentError reports whether an error describes files of a workspace. Errors about the input,
// the end of the call, and exhausted resources of the machine do not.
func isContentError(err error) bool {
	switch code := reason.Of(err); code {
	case reason.InvalidInput, reason.Internal, reason.Cancelled, reason.TimedOut:
		return false
	}
	return err != nil && reason.OutOfFiles(err) == "" && !slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// find opens the file. A path that does not exist has facts as well: a rule about its name
// decides before the caller is informed that the file does not exist.
func (s *seen) find(name string) error {
	var err error
	if s.handle, err = s.root.Open(name); err == nil {
		s.plan.Facts.Path = s.handle.Info().Path
		return nil
	}
	if reason.Of(err) != reason.FileNotFound {
		return err
	}
	s.missing = err
	s.plan.Facts.Path, err = s.root.Resolve(name)
	return err
}

// describe fills the plan. An approval binds to the workspace and the resolved path, in addition
// to the arguments. The identity of the file at that path is bound only by the permit.
func (s *seen) describe(name, verb string, risk int) {
	real, links := s.plan.Facts.Path, 0
	if s.handle != nil {
		links = linksOf(s.handle.Info())
	}
	s.plan = tool.Plan{
		Binding:       tool.Binding{Cwd: s.root.Name() + ":" + real},
		Facts:         fileFacts(s.root.Name(), real, links, risk),
		Contents:      []tool.FileAccess{readAccess(s.root.Name(), real, 0)},
		Preview:       tool.Preview{Summary: fmt.Sprintf("%s %q in workspace %s.", verb, real, s.root.Name())},
		Subject:       fmt.Sprintf("%s:%s:%s", name, s.root.Name(), subjectPart(real)),
		SubjectCovers: fmt.Sprintf("any %s of %s in workspace %s", name, real, s.root.Name()),
	}
	if s.handle != nil {
		s.plan.Files = []tool.FileIdentity{identityOf(s.handle.Info())}
	}
}

// identityOf omits the change time of a directory, because its entries are checked one by one.
func identityOf(info workspace.Info) tool.FileIdentity {
	id := tool.FileIdentity{Device: info.Identity.Device, Inode: info.Identity.Inode}
	if info.Kind != workspace.Dir {
		id.ChangedAt = info.Identity.ChangedAt
	}
	return id
}

// prepared returns a call on the inspected file, with the result of do.
func (s *seen) prepared(version string, do func(context.Context, tool.Call) (any, error)) tool.Prepared {
	return tool.Prepared{Plan: s.plan, Close: s.close, Run: func(ctx context.Context, c tool.Call) tool.Report {
		report := begin(version)
		result, err := do(ctx, c)
		if err != nil {
			return report.Fail(ctx, err)
		}
		return report.Succeed(result)
	}}
}

// planned returns only the plan.
func (s *seen) planned(err error) (tool.Plan, error) {
	if err != nil {
		return tool.Plan{}, err
	}
	defer s.close()
	return s.plan, nil
}
