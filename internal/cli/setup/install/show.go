package install

import (
	"fmt"
	"io/fs"

	"palyra/internal/cli/printer"
	"palyra/internal/core/unified"
)

// Record returns the change of a file for machine formats.
func (e *Edit) Record() printer.Object {
	return printer.Object{{Name: "path", Value: e.File.Path}, {Name: "diff", Value: e.Diff()}}
}

// Diff returns the changes of the file.
func (e *Edit) Diff() string {
	if e.secret {
		return "(a private file with the token of the hook)\n"
	}
	d := unified.File{OldPath: e.File.Path, NewPath: e.File.Path, Old: e.File.Text, New: e.After}
	if !e.File.Exists() {
		d.OldPath = ""
	}
	if e.Mode != 0 && e.File.Exists() && e.Mode != e.File.Mode() {
		d.OldMode, d.NewMode = gitMode(e.File.Mode()), gitMode(e.Mode)
	}
	return d.Diff()
}

func gitMode(m fs.FileMode) string { return fmt.Sprintf("100%03o", m) }

// Show prints a plan.
func (p *Plan) Show(page *printer.Page) {
	for _, e := range p.Edits {
		if e.Changes() {
			page.Diff(e.File.Path, e.Diff())
		}
	}
	for _, note := range p.Notes {
		page.Wrapped("note", note)
	}
}
