package tui

import (
	"strings"
	"time"

	"palyra/internal/cli/printer"
)

// inbox is the list of approvals that a filter selects.
type inbox struct {
	filter filter
	rows   rows
	// more is true if the gateway has more approvals than listed.
	more bool
	// held has the changes that arrive while the list is paused; nil if it is not paused.
	held map[string]*row
}

func (b *inbox) put(r *row) { b.rows.put(r, b.filter.admits) }

// take adds the listed approvals, unless the filter has changed since the request.
func (b *inbox) take(msg listedMsg, room int) error {
	if msg.filter != b.filter.text {
		return nil
	}
	if msg.err != nil {
		return msg.err
	}
	b.more = msg.more
	for _, r := range msg.rows {
		b.put(r)
	}
	b.rows.begin()
	b.rows.reveal(room)
	return nil
}

// changed adds a change, or buffers it while the list is paused.
func (b *inbox) changed(r *row, room int) {
	if b.held == nil {
		b.put(r)
		b.rows.reveal(room)
	} else if was := b.held[r.id]; was == nil || was.version <= r.version {
		b.held[r.id] = r
	}
}

// pause freezes the list, or continues it if it is frozen. While it is frozen, changes are
// buffered and counted.
func (b *inbox) pause(room int) {
	if b.held == nil {
		b.held = map[string]*row{}
		return
	}
	for _, r := range b.held {
		b.put(r)
	}
	b.held = nil
	b.rows.reveal(room)
}

func (b *inbox) body(style printer.Palette, s size, now time.Time, room int) []string {
	if len(b.rows.list) == 0 {
		return []string{"", "  no call waits" + map[bool]string{true: " that the filter admits", false: ""}[b.filter.text != ""]}
	}
	var lines []string
	for i, r := range b.rows.seen(room / rowLines) {
		about := []string{printer.Enum(r.state), orNone(r.severity), "asked " + printer.Span(max(0, now.Sub(r.created))) + " ago"}
		switch {
		case r.pending():
			about = append(about, leftOf(r.expires.Sub(now)))
		case r.answered != "":
			about = append(about, r.answered)
		}
		lines = append(lines, s.two(style, r.what, strings.Join(append(about, r.by), " · "), b.rows.top+i == b.rows.at, r.gone)...)
	}
	return lines
}
