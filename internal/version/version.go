// Package version says which build this is. It is a leaf.
package version

import (
	"runtime"
	"runtime/debug"
)

// stamp is set by the linker: -X palyra/internal/version.stamp=v1.2.3.
var stamp string

// Info describes a build.
type Info struct {
	// Version is the release or `git describe` text, "dev" when neither is known.
	Version string `json:"version"`
	// Revision is the full commit, "" when the build did not record one.
	Revision string `json:"revision,omitempty"`
	// Modified is true when the tree had changes that were not committed.
	Modified bool `json:"modified,omitempty"`
	// Go is the toolchain, such as "go1.26.0".
	Go string `json:"go"`
	// OS and Arch name the platform as Go does.
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// Get returns the running program's build.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return describe(stamp, build)
}

// String returns the version alone.
func String() string { return Get().Version }

func describe(stamped string, build *debug.BuildInfo) Info {
	info := Info{Version: stamped, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if build != nil {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Revision = s.Value
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
