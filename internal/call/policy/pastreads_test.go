package policy

import (
	"reflect"
	"testing"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/tool"
)

// TestReadsOfPast: the past facts that a policy reads are found in every syntactic form. No
// other facts are reported.
func TestReadsOfPast(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]PastReads{
		`context.risk > 5`:                                                            past(),
		`context.session.tainted`:                                                     past("tainted"),
		`context["session"]["bytes_out"] > 5`:                                         past("bytes_out"),
		`context.session.tools_used.contains("a")`:                                    past("tools_used"),
		`!context.session.secrets_read.isEmpty()`:                                     past("secrets_read"),
		`context.session.calls_in_run + context.session.in_flight > 3`:                past("calls_in_run", "in_flight"),
		`context.now.toTime() > duration("8h") || context.risk > 5`:                   past("now"),
		`context has host && context.session.tainted`:                                 past("tainted"),
		`context.session has tainted && principal == principal`:                       past("tainted"),
		`[context.session].contains(context.session)`:                                 pastOf(false),
		`[context].contains(context) || context.session.bytes_out == 1`:               pastOf(true),
		`if context.risk > 1 then context.session.tainted else resource == principal`: past("tainted"),
	} {
		policies, findings := expr.Parse("a.cedar", "forbid(principal, action, resource) when { "+condition+" };", false)
		if len(policies) != 1 {
			t.Fatalf("%s: %v", condition, findings)
		}
		if got := pastReads([]*compiled{compile(policies[0])}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads %+v, want %+v", condition, got, want)
		}
	}
}

func pastOf(now bool) PastReads {
	r := PastReads{Now: now}
	for _, p := range contextFacts[attrSession.index()].parts {
		r.session = append(r.session, p.Fact)
	}
	return r
}

func past(names ...string) PastReads {
	var r PastReads
	for _, name := range names {
		if name == "now" {
			r.Now = true
			continue
		}
		r.session = append(r.session, FactNamed("session."+name))
	}
	return r
}

func TestPastDiffers(t *testing.T) {
	t.Parallel()
	was := tool.SessionFacts{CallsInRun: 1, InFlight: 1, ToolsUsed: []string{"a"}}
	is := tool.SessionFacts{CallsInRun: 2, InFlight: 1, ToolsUsed: []string{"a", "b"}, SecretsRead: []string{"s"}, Tainted: true, BytesOut: 3}
	for name, r := range map[string]struct {
		reads PastReads
		want  bool
	}{
		"nothing is read":     {past("now"), false},
		"what stayed is read": {past("in_flight"), false},
		"calls":               {past("calls_in_run"), true},
		"tools":               {past("tools_used"), true},
		"secrets":             {past("secrets_read"), true},
		"taint":               {past("tainted"), true},
		"bytes":               {past("bytes_out"), true},
	} {
		if got := r.reads.Differ(was, is); got != r.want {
			t.Errorf("%s: %t, want %t", name, got, r.want)
		}
	}
}
