package workshop

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// The template files end in .txt, because the go command would otherwise treat them as Go
// sources.
//
//go:embed template
var templates embed.FS

// places maps the files of a new skill to their templates.
var places = []struct{ file, template string }{
	{"skill.toml", "skill.toml"}, {"go.mod", "go.mod"}, {"README.md", "README.md"},
	{"modules/count/main.go", "main.go"}, {"modules/count/main_test.go", "main_test.go"},
	{"host/host.go", "host.go"}, {"host/grants.go", "grants.go"}, {"host/elsewhere.go", "elsewhere.go"},
}

// New writes a new skill that builds and runs into an empty or missing directory, and returns its
// files.
func New(dir, name, publisher string) ([]string, error) {
	// The new manifest is parsed before any file is written, so that an invalid name is reported
	// first.
	if _, err := skill.ParseManifest(filled("skill.toml", name, publisher)); err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, reason.Errorf(reason.AlreadyExists, "%s is not empty", dir).WithRemedy("Name a directory that does not exist yet.")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, reason.Errorf(reason.InvalidInput, "reading %s: %w", dir, err)
	}
	var out []string
	for _, p := range places {
		file := filepath.Join(dir, filepath.FromSlash(p.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // sources are for all to read
			return nil, reason.Errorf(reason.InvalidInput, "making a directory: %w", err)
		}
		if err := os.WriteFile(file, filled(p.template, name, publisher), 0o644); err != nil { //nolint:gosec // sources are for all to read
			return nil, reason.Errorf(reason.InvalidInput, "writing a file: %w", err)
		}
		out = append(out, file)
	}
	return out, nil
}

func filled(template, name, publisher string) []byte {
	text, err := templates.ReadFile("template/" + template + ".txt")
	if err != nil {
		panic(err) // embedded above
	}
	return []byte(strings.NewReplacer("NAME", name, "PUBLISHER", publisher).Replace(string(text)))
}
