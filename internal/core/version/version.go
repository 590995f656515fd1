// Package version identifies the build. It is a leaf.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the linker: -X palyra/internal/core/version.stamp=v1.2.3. The commit and its date are
// for builds for which Go records none, such as in a git worktree. The builder and the SBOM are
// those of a release.
var stamp, commit, date, builder, sbom string

// Info describes a build.
type Info struct {
	// Version is the release or `git describe` text, "dev" if neither is known.
	Version string `json:"version"`
	// Revision is the full commit, "" if the build did not record it.
	Revision string `json:"revision,omitempty"`
	// Date is the time of that commit in RFC 3339 and UTC, "" if the build did not record it.
	Date string `json:"date,omitempty"`
	// Modified is true if the tree had uncommitted changes.
	Modified bool `json:"modified,omitempty"`
	// Builder names who built a release, "" for an ordinary build.
	Builder string `json:"builder,omitempty"`
	// SBOM is the digest of the release's software bill of materials, as "sha256:" and hex, "" for an
	// ordinary build.
	SBOM string `json:"sbom,omitempty"`
	// Go is the toolchain, such as "go1.26.0".
	Go string `json:"go"`
	// OS and Arch name the platform as Go does.
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// Get returns the build of the running program.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return describe(Info{Version: stamp, Revision: commit, Date: date, Builder: builder, SBOM: sbom}, build)
}

// Fields returns the displayed properties of a build, in order.
func (i Info) Fields() [][2]string {
	revision := recorded(i.Revision)
	if i.Modified {
		revision += " (modified)"
	}
	return [][2]string{
		{"version", i.Version}, {"commit", revision}, {"date", recorded(i.Date)}, {"builder", recorded(i.Builder)}, {"sbom", recorded(i.SBOM)},
		{"go", i.Go + " " + i.OS + "/" + i.Arch},
	}
}

func recorded(value string) string {
	if value == "" {
		return "none recorded"
	}
	return value
}

// String returns the version.
func String() string { return Get().Version }

// describe completes the linker's values with the build information that Go recorded.
func describe(info Info, build *debug.BuildInfo) Info {
	info.Go, info.OS, info.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
	info.Modified = strings.HasSuffix(info.Version, "-dirty")
	if build != nil {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Revision = s.Value
			case "vcs.time":
				info.Date = s.Value
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
		if info.Version == "" && build.Main.Version != "(devel)" {
			info.Version = build.Main.Version
		}
	}
	if info.Version == "" {
		info.Version = "dev"
	}
	return info
}
