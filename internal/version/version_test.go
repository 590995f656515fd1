package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
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
			if got := describe(test.stamped, test.build).Version; got != test.want {
				t.Errorf("version = %q, want %q", got, test.want)
			}
		})
	}
	info := describe("", &debug.BuildInfo{Settings: vcs})
	if info.Revision != "abc" || !info.Modified {
		t.Errorf("revision and modified are not taken from the build: %+v", info)
	}
	if String() == "" || Get().Go == "" {
		t.Error("the running build has no version or toolchain")
	}
}
