package seatbelt

import (
	"path"
	"strings"

	"palyra/internal/exec/workspace"
)

// denials are the regular expressions that prevent a program from writing to protected names of a
// workspace, including those that do not exist yet.
type denials struct {
	// writes are the names themselves.
	writes []string
	// pins are parent directories of the names. A program could otherwise move a parent away,
	// create a protected name in it, and move it back.
	pins []string
	// repositories match files named HEAD. With such a file, git treats any directory as a
	// repository and applies its configuration. except matches the HEAD files that git itself
	// writes in a .git.
	repositories, except []string
}

// deny builds the denials for the workspace at each of roots, which are spellings of one path.
// extra are the operator's patterns: a pattern without a slash matches in any directory, other
// patterns from the root.
func deny(roots, extra []string) (denials, error) {
	var d denials
	for _, root := range roots {
		if err := checkText(root); err != nil {
			return d, err
		}
		start := "^" + literal(root) + "/(.*/)?"
		for _, p := range workspace.ProtectedPatterns() {
			if err := d.add(start, p.Path, p.Below); err != nil {
				return d, err
			}
		}
		for _, pattern := range extra {
			if err := d.declared(root, pattern); err != nil {
				return d, err
			}
		}
		head, err := folded("head")
		if err != nil {
			return d, err
		}
		git, err := folded(".git")
		if err != nil {
			return d, err
		}
		d.repositories = append(d.repositories, start+head+"$")
		d.except = append(d.except, start+git+"/(logs|refs)/.*$")
	}
	return d, nil
}

// add denies one pattern at the places that start matches.
func (d *denials) add(start, pattern string, below bool) error {
	names := strings.Split(pattern, "/")
	sofar := start
	for i, name := range names {
		part, err := folded(name)
		if err != nil {
			return err
		}
		if i < len(names)-1 {
			d.pin(sofar + part + "$")
			sofar += part + "/"
			continue
		}
		end := "$"
		if below {
			end = "(/.*)?$"
		}
		d.writes = append(d.writes, sofar+part+end)
	}
	return nil
}

func (d *denials) pin(regex string) {
	for _, have := range d.pins {
		if have == regex {
			return
		}
	}
	d.pins = append(d.pins, regex)
}

// declared denies a pattern of the operator. "**" stands for any number of directories.
func (d *denials) declared(root, pattern string) error {
	if err := checkText(pattern); err != nil {
		return err
	}
	pattern = strings.Trim(path.Clean("/"+pattern), "/")
	if pattern == "" {
		return nil
	}
	start := "^" + literal(root) + "/"
	if !strings.Contains(pattern, "/") {
		start += "(.*/)?"
	}
	for {
		rest, anywhere := strings.CutPrefix(pattern, "**/")
		if !anywhere {
			break
		}
		start, pattern = "^"+literal(root)+"/(.*/)?", rest
	}
	if before, after, inner := strings.Cut(pattern, "/**"); inner && (after == "" || after[0] == '/') {
		// The pattern after the stars is ignored, so everything below is denied.
		pattern = before
	}
	return d.add(start, pattern, true)
}
