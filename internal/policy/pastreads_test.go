package policy

import (
	"testing"

	"palyra/internal/tool"
)

// TestReadsOfPast: what a policy reads of the past is found in whatever form it
// reads it, and nothing else is.
func TestReadsOfPast(t *testing.T) {
	for condition, want := range map[string]PastReads{
		`context.risk > 5`:                                                            {},
		`context.session.tainted`:                                                     {Tainted: true},
		`context["session"]["bytes_out"] > 5`:                                         {BytesOut: true},
		`context.session.tools_used.contains("a")`:                                    {ToolsUsed: true},
		`!context.session.secrets_read.isEmpty()`:                                     {SecretsRead: true},
		`context.session.calls_in_run + context.session.in_flight > 3`:                {CallsInRun: true, InFlight: true},
		`context.now.toTime() > duration("8h") || context.risk > 5`:                   {Now: true},
		`context has host && context.session.tainted`:                                 {Tainted: true},
		`context.session has tainted && principal == principal`:                       {Tainted: true},
		`[context.session].contains(context.session)`:                                 allButNow(),
		`[context].contains(context) || context.session.bytes_out == 1`:               allOfPast,
		`if context.risk > 1 then context.session.tainted else resource == principal`: {Tainted: true},
	} {
		policies, _, findings := parseSource(Source{Name: "a.cedar", Text: "forbid(principal, action, resource) when { " + condition + " };"}, false)
		if len(policies) != 1 {
			t.Fatalf("%s: %v", condition, findings)
		}
		if got := pastReads(policies); got != want {
			t.Errorf("%s reads %+v, want %+v", condition, got, want)
		}
	}
}

func allButNow() PastReads {
	r := allOfPast
	r.Now = false
	return r
}

func TestPastDiffers(t *testing.T) {
	was := tool.SessionFacts{CallsInRun: 1, InFlight: 1, ToolsUsed: []string{"a"}}
	is := tool.SessionFacts{CallsInRun: 2, InFlight: 1, ToolsUsed: []string{"a", "b"}, SecretsRead: []string{"s"}, Tainted: true, BytesOut: 3}
	for name, r := range map[string]struct {
		reads PastReads
		want  bool
	}{
		"nothing is read":     {PastReads{Now: true}, false},
		"what stayed is read": {PastReads{InFlight: true}, false},
		"calls":               {PastReads{CallsInRun: true}, true},
		"tools":               {PastReads{ToolsUsed: true}, true},
		"secrets":             {PastReads{SecretsRead: true}, true},
		"taint":               {PastReads{Tainted: true}, true},
		"bytes":               {PastReads{BytesOut: true}, true},
	} {
		if got := r.reads.Differ(was, is); got != r.want {
			t.Errorf("%s: %t, want %t", name, got, r.want)
		}
	}
}
