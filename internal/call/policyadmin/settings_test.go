package policyadmin

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
)

// Policies and earlier snapshots compare with "none", independent of the name that the
// configuration uses for the network of the host.
func TestSnapshotStoresNetworkAsNone(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.ProcessRunner.EgressEnforcementMode = config.EgressUnrestricted
	if mode := snapshot(cfg, nil).ProcessRunner.EgressEnforcementMode; mode != "none" {
		t.Errorf("the snapshot says %q", mode)
	}
}

// TestSurfacesOfThisGateway: no call waits for a vote from an unavailable surface. A disabled
// console is not a surface, and a chat is one only if answers from it are enabled.
func TestSurfacesOfThisGateway(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	has := func(s access.Surface) bool { return slices.Contains(surfaces(cfg), s) }
	if !has(access.SurfaceConsole) || !has(access.SurfaceTUI) || has(access.SurfaceSlack) {
		t.Errorf("by default: %v", surfaces(cfg))
	}
	cfg.Listen.Console = ""
	cfg.Notify = []config.Notify{{Decide: true}}
	if has(access.SurfaceConsole) || !has(access.SurfaceSlack) {
		t.Errorf("without a console, with a chat: %v", surfaces(cfg))
	}
}

// TestSnapshotOfEmptyLists: an empty list of tables is recorded like an absent one.
func TestSnapshotOfEmptyLists(t *testing.T) {
	t.Parallel()
	absent, empty := config.Default(), config.Default()
	empty.Secrets, empty.ProcessRunner.Inspect, empty.Workspaces = []config.Secret{}, []config.Inspect{}, []config.Workspace{}
	if one, other := must.Get(canonical.Marshal(snapshot(absent, nil)))(t), must.Get(canonical.Marshal(snapshot(empty, nil)))(t); !bytes.Equal(one, other) {
		t.Errorf("absent lists are recorded as\n%s\nempty ones as\n%s", one, other)
	}
}

// TestSnapshotNamesSettings: each field of a setting in a snapshot has the name of its key, or is
// left out on purpose, so that a new key does not enter the digest by accident.
func TestSnapshotNamesSettings(t *testing.T) {
	t.Parallel()
	var check func(reflect.Type)
	check = func(of reflect.Type) {
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key := f.Tag.Get("toml"); name != "-" && name != key {
				t.Errorf("%v.%s is recorded as %q, its key is %q", of, f.Name, name, key)
			}
			kind := f.Type
			if kind.Kind() == reflect.Slice {
				kind = kind.Elem()
			}
			if kind.Kind() == reflect.Struct && name != "-" {
				check(kind)
			}
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[config.ProcessRunner](), reflect.TypeFor[config.HTTP](), reflect.TypeFor[config.Workspace](),
		reflect.TypeFor[config.Secret](), reflect.TypeFor[config.WASMRuntime](), reflect.TypeFor[config.Skills](),
	} {
		check(of)
	}
}
