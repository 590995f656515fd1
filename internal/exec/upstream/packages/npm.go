package packages

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream/declared"
)

// The files of an npm project.
const (
	npmProject = "package.json"
	npmLock    = "package-lock.json"
)

// npmQuiet disables scripts, prompts, reports and long retries for unreachable hosts.
var npmQuiet = []string{
	"--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--omit=dev",
	"--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000", "--fetch-timeout=60000",
}

var npm = ecosystem{
	bins: "node_modules/.bin",
	env:  func(string) []string { return nil },
	resolve: func(w declared.PackageRequest, registry string) ([]string, map[string]string) {
		version := w.Version
		if version == "" {
			version = "latest"
		}
		return slices.Concat([]string{"npm", "install", "--package-lock-only", "--save-exact"}, npmQuiet, []string{"--registry=" + registry, "--", w.Name + "@" + version}), nil
	},
	// npm reads settings from variables, including the settings of one registry.
	loginVariable: func(registry string) string {
		_, place, _ := strings.Cut(registry, ":")
		return "npm_config_" + strings.TrimSuffix(place, "/") + "/:_authToken"
	},
	wrote: []string{npmProject, npmLock},
	lock:  readNPMLock,
	install: func(r declared.Resolution) []string {
		return slices.Concat([]string{"npm", "ci"}, npmQuiet, []string{"--registry=" + r.Registry})
	},
	programs: npmPrograms,
}

// npmEntry is a package of a lock file (lockfileVersion 3).
type npmEntry struct {
	Name      string          `json:"name"`
	Version   string          `json:"version"`
	Resolved  string          `json:"resolved"`
	Integrity string          `json:"integrity"`
	Link      bool            `json:"link"`
	InBundle  bool            `json:"inBundle"`
	Scripts   bool            `json:"hasInstallScript"`
	Bin       json.RawMessage `json:"bin"`
}

type npmLockFile struct {
	Version  int                 `json:"lockfileVersion"`
	Packages map[string]npmEntry `json:"packages"`
}

// strong matches digests with collision resistance.
var strong = lazyregexp.New(`(^| )sha(256|384|512)-[A-Za-z0-9+/]{40,}={0,2}`)

// readNPMLock reads a lock file. Every package must have a path, a version, a strong digest and a
// URL of the registry.
func readNPMLock(w declared.PackageRequest, r *declared.Resolution, wrote map[string][]byte) error {
	var lock npmLockFile
	if err := canonical.Read(wrote[npmLock], &lock); err != nil {
		return reason.Errorf(reason.ToolFailed, "npm wrote a lock file that cannot be read: %w", err)
	}
	if lock.Version < 2 || lock.Version > 3 {
		return reason.Errorf(reason.ToolFailed, "npm wrote a lock file of version %d, and only 2 and 3 are supported", lock.Version).WithRemedy("Install npm 7 or later on the gateway's host.")
	}
	for _, place := range slices.Sorted(maps.Keys(lock.Packages)) {
		if place == "" {
			continue
		}
		e := lock.Packages[place]
		name := npmNameOf(place, e)
		if err := checkNPM(*r, place, name, e); err != nil {
			return err
		}
		if e.InBundle {
			continue // it is part of another package's archive and digest
		}
		r.Parts = append(r.Parts, declared.Part{Name: name, Version: e.Version, Integrity: e.Integrity})
		if e.Scripts {
			r.Scripts = append(r.Scripts, name+" "+e.Version)
		}
	}
	own, ok := lock.Packages["node_modules/"+w.Name]
	if !ok {
		return reason.Errorf(reason.ToolFailed, "npm did not resolve %s", w.Name)
	}
	r.Name, r.Version, r.Integrity = w.Name, own.Version, own.Integrity
	return nil
}

func npmNameOf(place string, e npmEntry) string {
	if e.Name != "" {
		return e.Name
	}
	return place[strings.LastIndex(place, "node_modules/")+len("node_modules/"):]
}

func checkNPM(r declared.Resolution, place, name string, e npmEntry) error {
	refuse := func(format string, args ...any) error {
		return reason.Errorf(reason.InvalidInput, "%s, which the package needs, %s", name, fmt.Sprintf(format, args...)).
			WithRemedy("Install the server yourself in a directory of the search path, and add it by its path.")
	}
	switch {
	case !strings.HasPrefix(place, "node_modules/") || path.Clean(place) != place:
		return refuse("would be installed at %q", place)
	case e.Link:
		return refuse("is a link to a directory")
	case e.InBundle:
		return nil
	case !r.Holds(e.Resolved):
		return refuse("comes from %q, not from the registry", e.Resolved)
	case !strong.MatchString(e.Integrity):
		return refuse("has no digest of SHA-256 or better in its registry")
	}
	return nil
}

// npmPrograms returns the programs that the package declares.
func npmPrograms(r declared.Resolution, _ string) ([]string, error) {
	var lock npmLockFile
	if err := canonical.Read([]byte(r.Files[npmLock]), &lock); err != nil {
		return nil, err
	}
	bin := lock.Packages["node_modules/"+r.Name].Bin
	var several map[string]string
	if json.Unmarshal(bin, &several) == nil {
		return slices.Sorted(maps.Keys(several)), nil
	}
	var one string
	if json.Unmarshal(bin, &one) == nil && one != "" {
		return []string{path.Base(r.Name)}, nil
	}
	return nil, nil
}
