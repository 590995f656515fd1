package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"palyra/internal/exec/upstream/packages/packagestest"
)

// registryKey is the key of a script's registry.
type registryKey struct{}

// packageRegistry is the registry of one script.
type packageRegistry struct{ *packagestest.Registry }

// registry publishes a version of the package with the scripts' server.
func registry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: registry VERSION")
	}
	r := ts.Value(registryKey{}).(*packageRegistry)
	if r.Registry == nil {
		var stop func()
		r.Registry, stop = packagestest.Start()
		ts.Defer(stop)
		ts.Setenv("REGISTRY", r.URL)
		ts.Setenv("INDEX", r.Index)
	}
	r.PutProbe(args[0])
}
