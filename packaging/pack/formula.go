package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// formula returns the Homebrew formula with the digests of the archives.
func formula(o options, rel release) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(o.root, "packaging", "homebrew", "palyra.rb.tmpl"))
	if err != nil {
		return nil, err
	}
	digest := make(map[string]string)
	archives := make(map[string]string)
	for _, p := range platforms {
		if p.OS == "windows" {
			continue
		}
		archives[folder(p)] = rel.archive(p)
		if digest[folder(p)], err = digestOf(filepath.Join(o.out, rel.archive(p))); err != nil {
			return nil, err
		}
	}
	// Without a URL the formula installs from the folder in which it lies.
	base := strings.TrimSuffix(o.url, "/")
	if base == "" {
		base = "file://#{__dir__}"
	}
	parsed, err := template.New("formula").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Version": rel.version, "URL": base, "Archive": archives, "Digest": digest})
	if err != nil {
		return nil, fmt.Errorf("the formula: %w", err)
	}
	return out.Bytes(), nil
}
