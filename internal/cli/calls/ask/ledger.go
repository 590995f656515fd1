package ask

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record"
	"palyra/internal/cli/printer"
	"palyra/internal/core/event"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// Ledger writes the possible and actual connections of a call, one per line, at most the given
// number; 0 means all.
func Ledger(p *printer.Page, e tool.Egress, most int) {
	p.Field("egress", egressWord(e))
	if len(e.Observed) == 0 && e.Missed == 0 {
		return
	}
	shown := e.Observed
	if most > 0 && len(shown) > most {
		shown = shown[:most]
	}
	p.Columns("connections", connectionRows(shown))
	if more := len(e.Observed) - len(shown); more > 0 {
		p.Item(fmt.Sprintf("and %d more; `palyra attest show` lists all", more))
	}
	if e.Missed > 0 {
		p.Item(fmt.Sprintf("%d were not recorded individually, only in total", e.Missed))
	}
}

// egressWord describes the egress mode and its allowed destinations.
func egressWord(e tool.Egress) string {
	if len(e.Allowed) > 0 {
		return e.Mode + ", " + strings.Join(e.Allowed, ", ")
	}
	return e.Mode
}

func connectionRows(list []tool.Connection) [][]string {
	rows := [][]string{{"VERDICT", "HOST", "ADDRESS", "OUT", "IN", "BY", "RULE", "REASON"}}
	for _, c := range list {
		rows = append(rows, []string{c.Verdict, targetOf(c), c.Address, strconv.FormatInt(c.BytesOut, 10), strconv.FormatInt(c.BytesIn, 10), c.Leg, c.Rule, c.Reason})
	}
	return rows
}

// targetOf returns the target of a connection, or the number of summed connections.
func targetOf(c tool.Connection) string {
	target := c.Host
	if c.Host != "" && c.Port != 0 {
		target = net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	}
	switch {
	case c.Count == 0:
		return target
	case target == "":
		return text.Plural(c.Count, "other")
	}
	return fmt.Sprintf("%d to %s", c.Count, target)
}

// LedgerOf returns the egress of a call's final event; false for other events.
func LedgerOf(e *palyrav1.Event) (tool.Egress, bool) {
	payload, _ := record.Decode(&journal.Event{Code: event.Code(e.GetCode()), Payload: e.GetPayloadJson()})
	if p, ok := payload.(*record.Attested); ok {
		return p.Report.Egress, true
	}
	return tool.Egress{}, false
}
