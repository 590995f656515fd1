package call_test

import (
	"errors"
	"slices"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// TestInspectionsAreJournaled: the data that planning reads for a dry run is journaled, also if
// policy denies the call or its content prevents it. An actual call has its own events.
func TestInspectionsAreJournaled(t *testing.T) {
	t.Parallel()
	var looks []call.Look
	w := newWorld(t)
	cfg := w.Pipeline.Config
	cfg.Looked = func(l call.Look) { looks = append(looks, l) }
	p := must.Get(call.New(cfg))(t)
	take := func() []call.Look {
		defer func() { looks = nil }()
		return looks
	}
	must.Get(p.Evaluate(t.Context(), readCall()))(t)
	got := take()
	if len(got) != 1 || got[0].By != agent.Principal || got[0].As != agent.Principal || got[0].Tool != "fs.read" {
		t.Errorf("an evaluation: %+v", got)
	}
	if _, _, err := p.Describe(t.Context(), call.Description{Submission: readCall(), By: bob}); err != nil {
		t.Fatal(err)
	}
	if got = take(); len(got) != 1 || got[0].By != bob.Principal || got[0].As != agent.Principal {
		t.Errorf("an explanation: %+v", got)
	}
	there := runCall()
	there.Asker = bob
	must.Get(p.MayElsewhere(t.Context(), there, approval.Answer{}, noted))(t)
	if got = take(); len(got) != 1 || got[0].By != bob.Principal || got[0].As != there.Caller.Principal {
		t.Errorf("a call that runs elsewhere: %+v", got)
	}
	w.run.Change(func(p *gatewaytest.Probe) {
		p.PlanErr = &tool.RestrictedError{Plan: w.run.Found, Detail: errors.New("a detail")}
	})
	if _, err := p.AskElsewhere(t.Context(), there, "", nil); err == nil || len(take()) != 1 {
		t.Errorf("a conflict of such a call: %v", err)
	}
	w.reload(`@id("no") @reason("no") forbid(principal, action in Action::"tool.execute", resource);`)
	must.Get(p.Evaluate(t.Context(), readCall()))(t)
	if got = take(); len(got) != 1 {
		t.Errorf("a denied call: %+v", got)
	}
	bad := readCall()
	bad.Input = []byte(`{`)
	if _, err := p.Evaluate(t.Context(), bad); reason.Of(err) != reason.InvalidInput {
		t.Errorf("bad input: %v", err)
	}
	_, _ = p.Call(t.Context(), readCall(), func(call.Event) {})
	if got = take(); len(got) != 0 {
		t.Errorf("what read nothing, or is a call: %+v", got)
	}
}

// TestInspectionNamesItsFiles: the event of an inspection contains the paths, the program and the
// operands of the plan.
func TestInspectionNamesItsFiles(t *testing.T) {
	t.Parallel()
	var files []string
	w := newWorld(t, func(w *world) {
		plan := &w.run.Found
		plan.Facts.Workspace, plan.Facts.Path = "default", "a"
		plan.Binding.Executable.Path = "/usr/bin/make"
		plan.Binding.Operands = []tool.Operand{{Path: "a"}, {Path: "Makefile"}}
	})
	cfg := w.Pipeline.Config
	cfg.Looked = func(l call.Look) { files = l.Files }
	must.Get(must.Get(call.New(cfg))(t).Evaluate(t.Context(), runCall()))(t)
	if want := []string{"default:a", "/usr/bin/make", "default:Makefile"}; !slices.Equal(files, want) {
		t.Errorf("%v, want %v", files, want)
	}
}
