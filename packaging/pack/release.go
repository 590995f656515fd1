package main

import (
	"fmt"
	"regexp"
	"time"

	"palyra/packaging/linked"
)

// A release identifies what is packed.
type release struct {
	// version is that of the packages: 1.2.3 for the tag v1.2.3, 1.2.3+5.g0123456789ab for a commit
	// after it, and 0.0.0~20261130060000.0123456789ab without a tag. dpkg and rpm order
	// versions of later commits behind those of earlier ones.
	version string
	commit  string
	// date is the time of the commit in UTC; every file in an artifact has it.
	date time.Time
}

var (
	tagged  = regexp.MustCompile(`^v([0-9]+\.[0-9]+\.[0-9]+)(?:-((?:alpha|beta|rc)\.?[0-9]+))?(?:-([0-9]+)-g([0-9a-f]{12})(?:-dirty)?)?$`)
	commits = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func newRelease(tag, commit string, date time.Time) (release, error) {
	if !commits.MatchString(commit) {
		return release{}, fmt.Errorf("-commit %q is not a full commit; give all 40 digits", commit)
	}
	rel := release{commit: commit, date: date}
	if m := tagged.FindStringSubmatch(tag); m != nil {
		rel.version = m[1]
		if m[2] != "" {
			rel.version += "~" + m[2] // before the release, for dpkg and rpm
		}
		if m[3] != "" {
			rel.version += "+" + m[3] + ".g" + m[4]
		}
	} else {
		rel.version = "0.0.0~" + date.Format("20060102150405") + "." + commit[:12]
	}
	return rel, nil
}

// platforms are those that have artifacts.
var platforms = linked.Platforms

// programs returns the names of the programs of a platform, sorted.
func programs(p linked.Platform) []string {
	switch p.OS {
	case "windows":
		return []string{"palyra-hook.exe", "palyra.exe", "palyrad.exe"}
	case "linux":
		return []string{"palyra", "palyra-hook", "palyra-wasm", "palyrad"}
	}
	return []string{"palyra", "palyra-hook", "palyrad"}
}

// folder returns the name of a platform's folder in the stage.
func folder(p linked.Platform) string { return p.OS + "_" + p.Arch }

// linuxArches are the architectures that have packages and images.
var linuxArches = []string{"amd64", "arm64"}

func (r release) archive(p linked.Platform) string {
	name := "palyra_" + r.version + "_" + folder(p)
	if p.OS == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

func (r release) sbom() string { return "palyra_" + r.version + ".cdx.json" }
func (r release) provenance() string {
	return "palyra_" + r.version + ".intoto.jsonl"
}
