package call_test

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// skilled returns a world with a tool of the skill web. Calls of the tool need approval.
func skilled(t *testing.T, active ...string) (*world, *gatewaytest.Probe) {
	t.Helper()
	d := policytest.Fetch
	d.Name, d.Executor, d.Skill = "web/lookup", tool.TierAWasmtime, "web"
	probe := gatewaytest.NewProbe(d)
	return newWorld(t, twoUsers, func(w *world) {
		w.options.Tools, w.more = append(w.options.Tools, d), []tool.Runnable{probe}
		w.options.Snapshot.ActiveSkills = active
	}), probe
}

func skillCall() call.Submission {
	return call.Submission{Caller: agent, Tool: "web/lookup", Input: []byte(`{"url":"https://example.org/"}`), Run: "run-1"}
}

// activate puts a set with these active skills in force.
func (w *world) activate(active ...string) {
	w.t.Helper()
	o := w.options
	o.Snapshot.ActiveSkills = active
	w.engine.Swap(loaded(w.t, o))
}

// TestSkillThatIsNotActive: a call of an inactive skill is denied without a question, and the
// journal contains the result of the skill gate.
func TestSkillThatIsNotActive(t *testing.T) {
	t.Parallel()
	w, probe := skilled(t)
	r, o, err := w.call(skillCall())
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.PolicyDenied || !strings.Contains(o.Decision.Message, "may not run the skill web") ||
		!strings.Contains(o.Decision.Remedy, "palyra skills") || len(r.asks) > 0 {
		t.Errorf("%+v, %v, asked %d", o.Decision, err, len(r.asks))
	}
	probe.Ran(t, 0)
	said := w.events(event.Evaluated)
	if len(said) != 1 {
		t.Fatalf("%d evaluations", len(said))
	}
	var kept struct {
		Request policy.Request
		Verdict struct {
			Gate struct {
				Skill       string
				Allowed     bool
				Determining []policy.Determining
			} `json:"skill_gate"`
		}
	}
	must.Do(t, json.Unmarshal(said[0].Payload, &kept))
	if g := kept.Verdict.Gate; g.Skill != "web" || g.Allowed || len(g.Determining) != 1 || g.Determining[0].ID != "ceiling.skill" || kept.Request.SkillID != "web" {
		t.Errorf("the journal has %s", said[0].Payload)
	}
	e := must.Get(w.Evaluate(t.Context(), skillCall()))(t)
	if g := e.Verdict.SkillGate(); g == nil || g.Allowed {
		t.Errorf("a dry run: %+v", g)
	}
}

// TestSkillQuarantinedMeanwhile: a waiting or approved call does not run after its skill became
// inactive.
func TestSkillQuarantinedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		waiting, after bool
	}{{"control", false, false}, {"while it waits", true, false}, {"after the yes", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			var w *world
			w, probe := skilled(t, "web")
			r := w.beginWith(skillCall(), answered(func() {
				if c.after {
					w.activate()
				}
			}))
			rec := r.asked()
			if c.waiting {
				w.activate()
			}
			w.vote(bob, rec, yes)
			if c.waiting {
				r.leave() // the approval is no longer enough, and the call would keep waiting
			}
			o, err := r.wait()
			barred := c.waiting || c.after
			if err != nil && !c.waiting || o.Decision.Allowed == barred {
				t.Errorf("%+v, %v", o.Decision, err)
			}
			probe.Ran(t, map[bool]int32{false: 1}[barred])
		})
	}
}
