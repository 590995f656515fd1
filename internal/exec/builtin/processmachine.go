package builtin

import (
	"cmp"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
)

// layerCopyOnWrite is the layer that provides copies of a workspace.
const layerCopyOnWrite = string(sandbox.CopyOnWrite)

// machine is the sandbox of this machine with one measurement of its status. A call keeps its
// machine, so that one plan uses one measurement.
type machine struct {
	runner sandbox.Runner
	status sandbox.Status
	// required are the layers without which no program runs.
	required []string
}

// measured returns the machine with the current status.
func (m machine) measured() machine {
	if follows, ok := m.runner.(interface{ Status() sandbox.Status }); ok {
		m.status = follows.Status()
	}
	return m
}

// tier returns the measured tier; calls without a measurement are refused earlier.
func (m machine) tier() string { return cmp.Or(string(m.status.Tier), string(sandbox.TierC)) }

// lowerRung reports whether the program gets less isolation than Tier C on Linux.
func (m machine) lowerRung() bool {
	return m.status.Rung != "" && m.status.Rung != sandbox.Full
}

// probed returns the reason of the last probe why no sandbox works.
func (m machine) probed() error {
	if m.runner == nil {
		return reason.Errorf(reason.SandboxUnavailable, "no sandbox is available on this machine")
	}
	if m.status.Available {
		return nil
	}
	problem := cmp.Or(m.status.Problem, "the sandbox was not probed")
	remedy := cmp.Or(m.status.Remedy, reason.Lookup(reason.SandboxUnavailable).Remedy)
	return reason.Errorf(reason.SandboxUnavailable, "%s", problem).
		WithRemedy("%s palyrad retries automatically; restart it after installing software.", remedy)
}

// available returns an error if the probe found a required part missing. No approval is requested
// for a call that cannot run.
func (m machine) available(mode sandbox.WorkspaceMode) error {
	if err := m.probed(); err != nil {
		return err
	}
	if mode == sandbox.CopyOnWrite && !slices.Contains(m.status.Layers, layerCopyOnWrite) {
		return reason.Errorf(reason.SandboxUnavailable, "this machine cannot give a program a copy of its workspace").
			WithRemedy("Ask for read_only. The operator may set mode = \"direct\" for the workspace, which has weaker guarantees (docs/workspaces.md), and restart palyrad.").
			WithField("layer", layerCopyOnWrite)
	}
	for _, layer := range m.requiredFor(mode) {
		if !slices.Contains(m.status.Layers, layer) || layer == layerCopyOnWrite && mode != sandbox.CopyOnWrite {
			return reason.Errorf(reason.SandboxUnavailable, "the layer %s is required, but not available", layer).
				WithRemedy("See `palyrad doctor` for missing layers, or remove the layer from process_runner.required_layers. Then restart palyrad.").
				WithField("layer", layer)
		}
	}
	return nil
}

// requiredFor returns the layers required for a workspace in a mode. A program that cannot write
// needs no copy.
func (m machine) requiredFor(mode sandbox.WorkspaceMode) []string {
	return slices.DeleteFunc(slices.Clone(m.required), func(layer string) bool {
		return layer == layerCopyOnWrite && mode == sandbox.ReadOnly
	})
}

// confined refuses hosts if nothing would restrict the program to them.
func (m machine) confined(n network) error {
	if n.offline() || slices.Contains(m.status.Layers, sandbox.NetworkNamespace) {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "this machine cannot restrict a program to hosts, because network namespaces are not available").
		WithRemedy("Request no hosts (\"hosts\": []) to run the program offline. `palyrad doctor` shows missing features of the machine.").
		WithField("layer", sandbox.NetworkNamespace)
}
