package toolcall_test

import (
	"context"
	"testing"

	"palyra/internal/event"
	"palyra/internal/tool"
)

// TestWhatCameInTaints: a run whose program read from a host may have been told
// what to do, whatever the tool is; one that was refused everything has not.
func TestWhatCameInTaints(t *testing.T) {
	for name, row := range map[string]struct {
		egress tool.Egress
		want   bool
	}{
		"something came in": {tool.Egress{Mode: "strict", Observed: []tool.Connection{{Host: "x.org"}, {Host: "a.org", BytesIn: 1}}}, true},
		"nothing came in":   {tool.Egress{Mode: "strict", Observed: []tool.Connection{{Host: "x.org", BytesOut: 5}}}, false},
		"offline":           {tool.Egress{Mode: "strict"}, false},
		"nobody saw":        {tool.Egress{Mode: "unrestricted"}, true},
		"nobody saw, and only hosts were checked": {tool.Egress{Mode: "preflight"}, true},
	} {
		w := newWorld(t)
		w.read.run = func(context.Context, tool.Call) tool.Report {
			r := succeeded(`{}`)
			r.Egress = row.egress
			return r
		}
		w.call(readCall())
		w.call(readCall())
		kept := last[evaluated](w, event.Evaluated).Request.SessionFacts
		w.restart()
		w.call(readCall())
		found := last[evaluated](w, event.Evaluated).Request.SessionFacts
		if kept.Tainted != row.want || found.Tainted != row.want {
			t.Errorf("%s: tainted %t, and after a restart %t, want %t", name, kept.Tainted, found.Tainted, row.want)
		}
	}
}
