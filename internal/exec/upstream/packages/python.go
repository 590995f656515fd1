package packages

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/upstream/declared"
)

// The files of an installation by pip, and the directory of its packages in a prefix.
const (
	pipReport       = "report.json"
	pipWanted       = "wanted.txt"
	pipRequirements = "requirements.txt"
	pipSite         = "site"
)

// pipLogin is the variable with the credential of a private registry. pip expands it in the files
// that it reads, but not in settings.
const pipLogin = "PALYRA_REGISTRY_SECRET"

// pipTokens is PyPI's user name for token authentication.
const pipTokens = "__token__"

// pipIndex returns the requirements line that selects the registry for all packages.
func pipIndex(registry string, l declared.RegistryLogin) string {
	if l.Secret != "" {
		scheme, place, _ := strings.Cut(registry, "://")
		registry = scheme + "://" + cmp.Or(l.User, pipTokens) + ":${" + pipLogin + "}@" + place
	}
	return "--index-url " + registry + "\n"
}

// pipInstall runs pip without settings and without building: it accepts only wheels. The registry
// is named in the requirements file.
func pipInstall(more ...string) []string {
	return slices.Concat([]string{
		"python3", "-m", "pip", "--isolated", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off", "--retries", "1", "--timeout", "30", "--no-cache-dir", "--only-binary", ":all:",
		"--target", command.WorkspaceMount + "/" + pipSite,
	}, more)
}

var python = ecosystem{
	bins: pipSite + "/bin",
	env: func(prefix string) []string {
		return []string{"PYTHONPATH=" + filepath.Join(prefix, pipSite)}
	},
	loginVariable: func(string) string { return pipLogin },
	resolve: func(w declared.PackageRequest, registry string) ([]string, map[string]string) {
		wanted := w.Name
		switch {
		case w.Version == "" || w.Version == "latest":
		case strings.ContainsAny(w.Version[:1], "<>=!~"):
			wanted += w.Version
		default:
			wanted += "==" + w.Version
		}
		// pip reports a refusal of the registry only at this verbosity.
		return pipInstall("-vv", "--dry-run", "--ignore-installed", "--report", command.WorkspaceMount+"/"+pipReport, "-r", command.WorkspaceMount+"/"+pipWanted),
			map[string]string{pipWanted: pipIndex(registry, w.Login) + wanted + "\n"}
	},
	wrote: []string{pipReport},
	lock:  readPipReport,
	install: func(declared.Resolution) []string {
		return pipInstall("--quiet", "--no-deps", "--no-compile", "--require-hashes", "-r", command.WorkspaceMount+"/"+pipRequirements)
	},
	programs: pipPrograms,
}

// pipReportFile is pip's installation report (PyPA, version 1).
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

// readPipReport reads a report in which every package is a wheel of the registry with a SHA-256,
// and writes the requirements that install exactly these.
func readPipReport(w declared.PackageRequest, r *declared.Resolution, wrote map[string][]byte) error {
	var report pipReportFile
	if err := canonical.Read(wrote[pipReport], &report); err != nil {
		return reason.Errorf(reason.ToolFailed, "pip wrote a report that cannot be read: %w", err)
	}
	var lines []string
	for _, one := range report.Install {
		m, sum := one.Metadata, one.Download.Archive.Hashes["sha256"]
		refuse := func(format string, args ...any) error {
			return reason.Errorf(reason.InvalidInput, "%s, which the package needs, %s", m.Name, fmt.Sprintf(format, args...)).
				WithRemedy("Install the server yourself in a directory of the search path, and add it by its path.")
		}
		link, _, _ := strings.Cut(one.Download.URL, "#")
		switch {
		case !pinnedName.MatchString(m.Name) || !pinnedVersion.MatchString(m.Version):
			return refuse("is %q in the version %q", m.Name, m.Version)
		case !r.Holds(link):
			return refuse("comes from %q, not from the registry", link)
		case !strings.HasSuffix(link, ".whl"):
			return refuse("is not a wheel, and building it would run code of the package")
		case !sha256Form.MatchString(sum):
			return refuse("has no SHA-256 in its registry")
		}
		r.Parts = append(r.Parts, declared.Part{Name: m.Name, Version: m.Version, Integrity: "sha256:" + sum})
		lines = append(lines, fmt.Sprintf("%s==%s --hash=sha256:%s\n", m.Name, m.Version, sum))
		if one.Requested {
			r.Name, r.Version, r.Integrity = w.Name, m.Version, "sha256:"+sum // with its extras, which an update needs as well
		}
	}
	if r.Name == "" {
		return reason.Errorf(reason.ToolFailed, "pip did not resolve the package")
	}
	slices.Sort(lines)
	slices.SortFunc(r.Parts, func(a, b declared.Part) int { return strings.Compare(a.Name, b.Name) })
	r.Files = map[string]string{pipRequirements: pipIndex(r.Registry, r.Login) + strings.Join(lines, "")}
	return nil
}

// pipPrograms returns the installed programs.
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
