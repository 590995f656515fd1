package api_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
)

const heldResult = `{"held":true}`

// held returns the report of a sandboxed call with a different value in every field of the
// posture.
func held(context.Context, tool.Call) tool.Report {
	r := gatewaytest.Succeeded(heldResult)
	r.Executor = tool.ExecutorInfo{Name: tool.TierCBubblewrap, Version: "test", Tier: "c", Backend: "bubblewrap 0.8.0"}
	r.Enforcement = tool.Enforcement{
		Level: "strict", Requested: []string{"seccomp", "control_group"}, Applied: []string{"seccomp"}, Downgrades: []string{"control_group: there is none"},
	}
	r.Isolation = &tool.Isolation{}
	r.Egress = tool.Egress{Mode: "strict", Allowed: []string{"example.com:443"}}
	return r
}

// attestedPosture returns the posture of the signed statement.
func attestedPosture(t *testing.T, w *world, a *palyrav1.ToolAttestation) *palyrav1.ExecutionPosture {
	t.Helper()
	envelope := a.GetEnvelopeJson()
	if envelope == nil { // the envelope names files, and the client may read no attestations
		envelope = must.Get(palyrav1connect.NewAttestationServiceClient(w.alice.http, w.url).GetAttestation(t.Context(),
			&palyrav1.GetAttestationRequest{Id: a.GetAttestationId()}))(t).GetEnvelopeJson()
	}
	p := must.Get(attest.Verify(envelope, w.notary.KeySet()))(t).Statement.Predicate
	return &palyrav1.ExecutionPosture{
		Executor: string(p.Executor.Name), Tier: p.Executor.Tier, Backend: p.Executor.Backend,
		Enforcement: p.SandboxEnforcement, Layers: p.Enforcement.Applied, Downgrades: p.Enforcement.Downgrades,
		Egress: p.Egress.Mode, EgressAllowed: p.Egress.Allowed, ExecutionDigest: "sha256:" + p.ExecutionSHA256,
	}
}

// checkPosture compares the posture with the signed statement, and with the report of the tool.
func checkPosture(t *testing.T, w *world, via string, a *palyrav1.ToolAttestation) {
	t.Helper()
	got := a.GetPosture()
	if signed := attestedPosture(t, w, a); !proto.Equal(got, signed) {
		t.Errorf("%s: the posture is\n%v\nbut the attestation says\n%v", via, got, signed)
	}
	want := &palyrav1.ExecutionPosture{
		Executor: "sandbox_tier_c_linux_bubblewrap", Tier: "c", Backend: "bubblewrap 0.8.0",
		Enforcement: "strict", Layers: []string{"seccomp"}, Downgrades: []string{"control_group: there is none"},
		Egress: "strict", EgressAllowed: []string{"example.com:443"}, ExecutionDigest: canonical.Digest([]byte(heldResult)),
	}
	if !proto.Equal(got, want) {
		t.Errorf("%s: the posture is\n%v\nwant\n%v", via, got, want)
	}
}

// TestPostureMatchesTheAttestation: the posture of a call and of a run equals the signed
// statements of their attestations.
func TestPostureMatchesTheAttestation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = held
	w.model.plays(wants(read("a")), says("done"))
	for protocol, opts := range protocols {
		list := must.Get(w.coder.call(reading(), opts...))(t)
		checkPosture(t, w, protocol+", CallTool", last(list).GetAttestation())
		events := must.Get(w.coder.runStream(startRun("look"), opts...).rest())(t)
		id := ""
		for _, e := range events {
			if e.GetStarted() != nil {
				id = e.GetStarted().GetRun().GetRunId()
			}
		}
		checkRunPosture(t, w, protocol+", RunStream", events)
		checkRunPosture(t, w, protocol+", WatchRun", w.watchRun(w.coder, id, 0))
	}
}

func checkRunPosture(t *testing.T, w *world, via string, events []*palyrav1.RunEvent) {
	t.Helper()
	found := 0
	for _, e := range events {
		if a := e.GetAttestation(); a != nil {
			checkPosture(t, w, via, a)
			found++
		}
	}
	if found != 1 {
		t.Errorf("%s: %d attestations in %v", via, found, kinds(events))
	}
}
