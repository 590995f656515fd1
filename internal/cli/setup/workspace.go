package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/agent/edit"
	"palyra/internal/cli/setup/install"
	"palyra/internal/core/reason"
	"palyra/internal/core/tomledit"
	"palyra/internal/exec/workspace"
)

// declare adds the current directory to the workspaces of a configuration, unless it is a workspace
// or below one.
func (s *setup) declare(e *install.Edit, home string) error {
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fmt.Errorf("finding the current directory: %w", err)
	}
	for _, w := range s.config.Workspaces {
		if at, err := filepath.EvalSymlinks(w.Path); err == nil && edit.Within(dir, at) {
			return nil
		}
	}
	if err := s.mayDeclare(dir, home); err != nil {
		return err
	}
	s.dir, s.name = dir, s.freeName(dir)
	return e.AppendTOML("", []string{"workspaces"}, tomledit.Pair{Key: "name", Value: s.name}, tomledit.Pair{Key: "path", Value: dir})
}

// mayDeclare returns an error for a directory that holds more than a project.
func (s *setup) mayDeclare(dir, home string) error {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	if edit.Within(home, dir) { // including the root
		return reason.Errorf(reason.InvalidInput, "%s cannot be a workspace: it holds your home directory, with the settings of your agents and your keys", dir).
			WithRemedy("Change to the directory of a project, and run `palyra up` there.")
	}
	declared := []workspace.Declaration{{Name: "new", Path: dir}}
	_, err := workspace.NewSet(declared,
		workspace.Private{Name: "state_dir", Path: s.config.StateDir}, workspace.Private{Name: "policy.dir", Path: s.config.Policy.Dir},
		workspace.Private{Name: "the configuration file", Path: s.path})
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "%s cannot be a workspace: %w", dir, err).WithRemedy("Change to the directory of a project, and run `palyra up` there.")
	}
	return nil
}

// freeName returns an unused name for a workspace, derived from its directory.
func (s *setup) freeName(dir string) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, filepath.Base(dir))
	base = strings.Trim(base, "-_")
	if base == "" {
		base = "project"
	}
	base = base[:min(len(base), 40)]
	name := base
	for n := 2; s.taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func (s *setup) taken(name string) bool {
	for _, w := range s.config.Workspaces {
		if w.Name == name {
			return true
		}
	}
	return false
}
