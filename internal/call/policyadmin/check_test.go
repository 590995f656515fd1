package policyadmin_test

import (
	"path/filepath"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// heldTools block a check until they are released.
type heldTools struct {
	builtinTools
	hold func()
}

func (h *heldTools) Descriptors() []tool.Descriptor {
	if hold := h.hold; hold != nil {
		h.hold = nil
		hold()
	}
	return h.builtinTools.Descriptors()
}

// TestCheckKeepsNoState: while a check runs, calls and operators can read the policies, and
// policies can come into force.
func TestCheckKeepsNoState(t *testing.T) {
	t.Parallel()
	tools, engine, cfg, log := &heldTools{}, &policy.Engine{}, config.Default(), &gatewaytest.Log{}
	cfg.Policy.Dir = t.TempDir()
	p := policyadmin.New(policyadmin.Config{
		Guard:    change.Unguarded,
		Settings: cfg, Store: sqlite.NewPolicies(sqlitetest.Open(t)), Journal: noJournal{}, Engine: engine, Members: oneOwner{}, Tools: tools, Swapped: func() {}, Log: log.Logger(),
	})
	must.Do(t, p.Loader.Load(t.Context()))
	began, goOn, found := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	tools.hold = func() { close(began); <-goOn }
	go func() {
		found <- len(p.Drafts.Check(t.Context(), []policy.Source{{Name: "x.cedar", Text: "permt();"}}))
	}()
	<-began
	before := engine.Current().Version()
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
	reloaded := must.Get(p.Loader.Reload(t.Context(), operatorCaller()))(t)
	if reloaded.Version == before || engine.Current().Version() != reloaded.Version || !p.Loader.Directory().InForce || p.Loader.Notices() != nil || len(p.Active.Current().Sources) == 0 {
		t.Errorf("beside a check, %+v is in force", reloaded)
	}
	select {
	case <-found:
		t.Error("the check ended before it was let go on")
	default:
	}
	close(goOn)
	if n := <-found; n == 0 {
		t.Error("the check found nothing")
	}
}
