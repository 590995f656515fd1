package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// module is the path of the module whose packages are tested.
const module = "palyra"

// pkg is one package as "go list -json" describes it.
type pkg struct {
	ImportPath   string
	Dir          string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// hasTests reports whether the package has test files.
func (p pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// within reports whether the package is the folder of the module, or below it.
func (p pkg) within(folder string) bool {
	path := module + "/" + folder
	return p.ImportPath == path || strings.HasPrefix(p.ImportPath, path+"/")
}

// listPackages returns the packages that match patterns, by the go command. A directory of the
// checkout is also a pattern, because results name packages in that form. Cgo is on, so that
// packages that require it are listed as well.
func listPackages(ctx context.Context, goTool string, patterns ...string) ([]pkg, error) {
	patterns = slices.Clone(patterns)
	for i, pattern := range patterns {
		if info, err := os.Stat(strings.TrimSuffix(pattern, "/...")); err == nil && info.IsDir() && filepath.IsLocal(pattern) {
			patterns[i] = "./" + pattern
		}
	}
	cmd := exec.CommandContext(ctx, goTool, append([]string{"list", "-e", "-tags", "palyrainit",
		"-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("listing packages: %w: %s", err, errs.String())
	}
	var all []pkg
	for decoder := json.NewDecoder(&out); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("listing packages: %w", err)
		}
		if p.ImportPath == "" || p.Dir == "" {
			return nil, fmt.Errorf("no package matches %s; name packages by a pattern such as ./internal/call/policy/... or leave PKG out", strings.Join(patterns, " "))
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no package matches %s; name packages by a pattern such as ./internal/call/policy/... or leave PKG out", strings.Join(patterns, " "))
	}
	return all, nil
}

// recorded is durations.txt: the seconds that each package took in each tier, as "make test
// REPORT=dir" wrote them.
//
//go:embed durations.txt
var recorded string

// concurrent is race.txt: the packages whose product or test code is concurrent. Archtest
// generates and checks it.
//
//go:embed race.txt
var concurrent string

// recordedDurations returns the recorded time of each package by tier, "tier package".
func recordedDurations() map[string]time.Duration {
	all := map[string]time.Duration{}
	for line := range strings.Lines(recorded) {
		fields := strings.Fields(line)
		if len(fields) != 3 || strings.HasPrefix(line, "#") {
			continue
		}
		if s, err := strconv.ParseFloat(fields[2], 64); err == nil {
			all[recordName(fields[0])+" "+fields[1]] = seconds(s)
		}
	}
	return all
}

// recordName returns the name under which the durations of a tier are recorded: race for
// race-1.
func recordName(tier string) string { return strings.TrimRight(tier, "-0123456789") }

// shardOf returns the number of the tier race-1 to race-3 that a package belongs to, 0 for
// none. Packages are assigned longest first, each to the tier with the shortest total.
func shardOf(p pkg) int {
	took := recordedDurations()
	folders := concurrentFolders()
	slices.SortStableFunc(folders, func(a, b string) int {
		return cmp.Compare(took["race "+module+"/"+b], took["race "+module+"/"+a])
	})
	var shares [raceShards]time.Duration
	for _, folder := range folders {
		least := 0
		for i := range shares {
			if shares[i] < shares[least] {
				least = i
			}
		}
		// Linking takes about a second, also for a package without a recorded duration.
		shares[least] += took["race "+module+"/"+folder] + time.Second
		if module+"/"+folder == p.ImportPath {
			return least + 1
		}
	}
	return 0
}

// longestFirst sorts the packages of a tier by their recorded time, so that the last one to
// start is short. Packages without a record come first.
func longestFirst(tier string, all []pkg) {
	took := recordedDurations()
	key := func(p pkg) time.Duration {
		if d, ok := took[recordName(tier)+" "+p.ImportPath]; ok {
			return d
		}
		return time.Hour
	}
	slices.SortStableFunc(all, func(a, b pkg) int { return int(key(b)/time.Millisecond - key(a)/time.Millisecond) })
}

// isConcurrent reports whether a package is on the list of packages that the race detector
// watches.
func isConcurrent(p pkg) bool {
	return slices.Contains(concurrentFolders(), strings.TrimPrefix(p.ImportPath, module+"/"))
}

// concurrentFolders returns the folders of race.txt.
func concurrentFolders() []string {
	var folders []string
	for line := range strings.Lines(concurrent) {
		if !strings.HasPrefix(line, "#") {
			folders = append(folders, strings.TrimSpace(line))
		}
	}
	return folders
}

// requiresCgo reports whether a package, or one that it imports from the module, does not
// compile without cgo.
func requiresCgo(p pkg) bool {
	return p.within("cmd/palyra-wasm") || p.within("test/wasm")
}

// folder returns the package's folder with slashes, relative to the module.
func (p pkg) folder(root string) string {
	dir, err := filepath.Rel(root, p.Dir)
	if err != nil {
		return p.Dir
	}
	return filepath.ToSlash(dir)
}
