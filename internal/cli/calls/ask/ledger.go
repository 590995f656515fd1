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

// Ledger says what a call could and did reach: a line for each connection, at
// most so many; 0 means all.
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
		p.Item(fmt.Sprintf("%d were not recorded one by one, and are added up", e.Missed))
	}
}

// egressWord is the mode and what may be reached in it.
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

// targetOf is the target of a connection, or says how many a sum is of.
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

// LedgerOf is the egress of an event that says how a call ended; false for
// others.
func LedgerOf(e *palyrav1.Event) (tool.Egress, bool) {
	payload, _ := record.Decode(&journal.Event{Code: event.Code(e.GetCode()), Payload: e.GetPayloadJson()})
	if p, ok := payload.(*record.Attested); ok {
		return p.Report.Egress, true
	}
	return tool.Egress{}, false
}
