package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/lazyregexp"
	"palyra/internal/mcp/declared"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// The files of an installation by pip, and where its packages are in a prefix.
const (
	pipReport       = "report.json"
	pipRequirements = "requirements.txt"
	pipSite         = "site"
)

// pipInstall keeps pip from reading settings and from building anything: wheels alone.
func pipInstall(registry string, more ...string) []string {
	return slices.Concat([]string{
		"python3", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--retries", "1", "--timeout", "30", "--no-cache-dir", "--only-binary", ":all:",
		"--target", sandbox.WorkspaceMount + "/" + pipSite, "--index-url", registry,
	}, more)
}

var python = ecosystem{
	bins: pipSite + "/bin",
	env: func(prefix string) []string {
		return []string{"PYTHONPATH=" + filepath.Join(prefix, pipSite)}
	},
	resolve: func(w declared.Wanted, registry string) []string {
		wanted := w.Name
		switch {
		case w.Version == "" || w.Version == "latest":
		case strings.ContainsAny(w.Version[:1], "<>=!~"):
			wanted += w.Version
		default:
			wanted += "==" + w.Version
		}
		return pipInstall(registry, "--dry-run", "--ignore-installed", "--report", sandbox.WorkspaceMount+"/"+pipReport, "--", wanted)
	},
	wrote: []string{pipReport},
	lock:  readPipReport,
	install: func(r declared.Resolution) []string {
		return pipInstall(r.Registry, "--no-deps", "--no-compile", "--require-hashes", "-r", sandbox.WorkspaceMount+"/"+pipRequirements)
	},
	programs: pipPrograms,
}

// pipReportFile is what pip says of what it would install (PyPA, version 1).
type pipReportFile struct {
	Install []struct {
		Download struct {
			URL     string `json:"url"`
			Archive struct {
				Hashes map[string]string `json:"hashes"`
			} `json:"archive_info"`
		} `json:"download_info"`
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
		Requested bool `json:"requested"`
	} `json:"install"`
}

var (
	sha256Form    = lazyregexp.New(`^[0-9a-f]{64}$`)
	pinnedName    = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pinnedVersion = lazyregexp.New(`^[A-Za-z0-9.!+_-]{1,100}$`)
)

// readPipReport takes a report in which everything is a wheel of the registry with a
// SHA-256, and writes the requirements that install just these.
func readPipReport(w declared.Wanted, r *declared.Resolution, wrote map[string][]byte) error {
	var report pipReportFile
	if err := json.Unmarshal(wrote[pipReport], &report); err != nil {
		return reason.Errorf(reason.ToolFailed, "pip left a report that cannot be read: %w", err)
	}
	var lines []string
	for _, one := range report.Install {
		m, sum := one.Metadata, one.Download.Archive.Hashes["sha256"]
		refuse := func(format string, args ...any) error {
			return reason.Errorf(reason.InvalidInput, "%s, which the package needs, %s", m.Name, fmt.Sprintf(format, args...)).
				WithRemedy("Install the server yourself where programs are found, and add it by its path.")
		}
		link, _, _ := strings.Cut(one.Download.URL, "#")
		switch {
		case !pinnedName.MatchString(m.Name) || !pinnedVersion.MatchString(m.Version):
			return refuse("is %q in the version %q", m.Name, m.Version)
		case !r.Holds(link):
			return refuse("comes from %q, and not from the registry", link)
		case !strings.HasSuffix(link, ".whl"):
			return refuse("is no wheel, and what is built runs code of the package")
		case !sha256Form.MatchString(sum):
			return refuse("has no SHA-256 at its registry")
		}
		r.Parts = append(r.Parts, declared.Part{Name: m.Name, Version: m.Version, Integrity: "sha256:" + sum})
		lines = append(lines, fmt.Sprintf("%s==%s --hash=sha256:%s\n", m.Name, m.Version, sum))
		if one.Requested {
			r.Name, r.Version, r.Integrity = w.Name, m.Version, "sha256:"+sum // with its extras, which an update wants, too
		}
	}
	if r.Name == "" {
		return reason.Errorf(reason.ToolFailed, "pip did not resolve the package")
	}
	slices.Sort(lines)
	slices.SortFunc(r.Parts, func(a, b declared.Part) int { return strings.Compare(a.Name, b.Name) })
	r.Files = map[string]string{pipRequirements: strings.Join(lines, "")}
	return nil
}

// pipPrograms are those that were installed.
func pipPrograms(_ declared.Resolution, prefix string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(prefix, pipSite, "bin"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
