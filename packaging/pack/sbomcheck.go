package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// checkSBOM compares the SBOM with what the linker recorded in each staged program, and with the
// modules that the bundler put into the console. The SBOM is made from other sources: the import
// graph and the lock file.
func checkSBOM(_ context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(o.out, rel.sbom()))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var list cdx.BOM
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&list); err != nil {
		return err
	}
	listed := make(map[string][]string)
	for _, d := range *list.Dependencies {
		if d.Dependencies != nil {
			listed[d.Ref] = *d.Dependencies
		}
	}
	packages, err := bundled(filepath.Join(o.root, "bin", "web-modules"))
	if err != nil {
		return err
	}
	var problems []error
	for _, p := range platforms {
		for _, name := range programs(p) {
			linked, err := recorded(filepath.Join(o.stage, folder(p), name))
			if err != nil {
				return err
			}
			program := folder(p) + "/" + strings.TrimSuffix(name, ".exe")
			var urls []string
			for _, url := range listed[program] {
				if npm, ok := strings.CutPrefix(url, "pkg:npm/"); ok {
					url = "pkg:npm/" + npm[:strings.LastIndex(npm, "@")] // the bundle does not say versions
				}
				urls = append(urls, url)
			}
			if strings.HasPrefix(name, "palyrad") {
				linked = append(linked, packages...)
			}
			problems = append(problems, compare(program, linked, urls))
		}
	}
	return errors.Join(problems...)
}

// compare returns an error that names what only one of two lists has.
func compare(program string, linked, listed []string) error {
	var problems []error
	for _, url := range linked {
		if !slices.Contains(listed, url) {
			problems = append(problems, fmt.Errorf("%s has %s, which the SBOM does not list", program, url))
		}
	}
	for _, url := range listed {
		if !slices.Contains(linked, url) {
			problems = append(problems, fmt.Errorf("the SBOM lists %s in %s, which does not have it", url, program))
		}
	}
	return errors.Join(problems...)
}

// recorded returns the package URLs of the modules that the linker recorded in a program.
func recorded(program string) ([]string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	version, _, _ := strings.Cut(info.GoVersion, " ") // experiments follow
	urls := []string{"pkg:golang/std@" + version}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		urls = append(urls, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return urls, nil
}

// packageName matches a file of a package, or what the bundler itself adds ("virtual:rolldown/runtime.js").
var packageName = regexp.MustCompile(`(?:^virtual:|^.*node_modules/)((?:@[^/]+/)?[^/]+)/`)

// bundled returns the package URLs, without versions, of the npm packages in the bundles.
func bundled(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no lists of modules (%w); `make web` writes them", folder, errors.Join(err, os.ErrNotExist))
	}
	var urls []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var modules []string
		if err := json.Unmarshal(data, &modules); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, module := range modules {
			if m := packageName.FindStringSubmatch(module); m != nil {
				urls = append(urls, "pkg:npm/"+strings.Replace(m[1], "@", "%40", 1))
			}
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), nil
}
