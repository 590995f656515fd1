package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-23T02:40:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, test := range []struct {
		name    string
		stamped string
		build   *debug.BuildInfo
		want    string
	}{
		{"linker wins", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v9.0.0"}}, "v1.2.3"},
		{"go install", "", &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}}, "v0.4.0"},
		{"plain build", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "dev"},
		{"no build info", "", nil, "dev"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(Info{Version: test.stamped}, test.build).Version; got != test.want {
				t.Errorf("version = %q, want %q", got, test.want)
			}
		})
	}
	stamped := Info{Version: "v1-dirty", Revision: "stamped", Date: "then"}
	if info := describe(stamped, nil); info.Revision != "stamped" || info.Date != "then" || !info.Modified {
		t.Errorf("what the linker was told is lost: %+v", info)
	}
	info := describe(stamped, &debug.BuildInfo{Settings: vcs})
	if info.Revision != "abc" || info.Date != "2026-11-23T02:40:00Z" || !info.Modified {
		t.Errorf("revision, date and modified are not taken from the build: %+v", info)
	}
	fields := info.Fields()
	if fields[1][1] != "abc (modified)" || fields[2] != [2]string{"date", "2026-11-23T02:40:00Z"} || fields[3] != [2]string{"builder", "none recorded"} || fields[4] != [2]string{"sbom", "none recorded"} {
		t.Errorf("the displayed properties are %q", fields)
	}
	fields = describe(Info{Version: "v1", Builder: "make release", SBOM: "sha256:ab"}, nil).Fields()
	if fields[1][1] != "none recorded" || fields[3][1] != "make release" || fields[4][1] != "sha256:ab" {
		t.Errorf("the displayed properties of a release are %q", fields)
	}
	if String() == "" || Get().Go == "" {
		t.Error("the running build has no version or toolchain")
	}
}
