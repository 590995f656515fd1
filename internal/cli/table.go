package cli

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

const (
	columnGap = "  "
	// minimumCell is the narrowest a column is cut to while others can go, and
	// leastCell when none can.
	minimumCell = 12
	leastCell   = 4
)

// table lays records out in columns. On a terminal columns are cut, with an
// ellipsis, or left out until a row fits; elsewhere and with -o wide nothing is.
func (a *app) table(l listing, records []record) string {
	rows := make([][]string, 0, len(records)+1)
	rows = append(rows, a.header(l))
	for _, r := range records {
		rows = append(rows, a.row(r))
	}
	widths := measure(rows)
	if limit := a.wide(); limit > 0 && a.format() != formatWide {
		rows, widths = l.fit(rows, limit)
	}
	style := a.outStyle()
	var b strings.Builder
	for i, row := range rows {
		paint := style.state
		if i == 0 {
			paint = style.bold
		}
		b.WriteString(line(row, widths, paint))
	}
	return b.String()
}

// streamRow lays out one record whose followers are not known yet.
func (a *app) streamRow(l listing, r record, first bool) string {
	header := a.header(l)
	widths := measure([][]string{header})
	for i, w := range l.streamWidths() {
		if i < len(widths) {
			widths[i] = max(widths[i], w)
		}
	}
	style := a.outStyle()
	row := line(a.row(r), widths, style.state)
	if first {
		return line(header, widths, style.bold) + row
	}
	return row
}

// streamWidths are usual widths by column name.
func (l listing) streamWidths() []int {
	usual := map[string]int{
		"ID": 26, "SUBJECT": 26, "SEQ": 7, "AT": 20, "CODE": 8, "STATE": 9, "TOOL": 12, "ACTOR": 16, "FOR": 16, "EVENT": 18, "WHAT": 24,
	}
	widths := make([]int, len(l.columns))
	for i, c := range l.columns {
		widths[i] = usual[c]
	}
	return widths
}

func (a *app) header(l listing) []string {
	if a.format() == formatWide {
		return append(append([]string{}, l.columns...), l.wide...)
	}
	return l.columns
}

func (a *app) row(r record) []string {
	cells := r.cells
	if a.format() == formatWide {
		cells = append(append([]string{}, cells...), r.wide...)
	}
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = visibleLine(c)
		if out[i] == "" {
			out[i] = "-"
		}
	}
	return out
}

func measure(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], lipgloss.Width(c))
		}
	}
	return widths
}

// whole are the columns that are of no use when they are cut: ids and times.
var whole = []string{"ID", "KEY", "SEQ", "SUBJECT", "AT", "LEFT", "ENDS", "CERTIFICATE ENDS", "REVOKED"}

// fit makes rows, the header first, fit a terminal: columns that may be cut
// are, then those that the listing can do without go, then the others are cut
// to almost nothing. Ids and times stay whole, even if the row is then too long.
func (l listing) fit(rows [][]string, limit int) (fitting [][]string, widths []int) {
	for _, drop := range append([]string{""}, l.drop...) {
		rows = without(rows, drop)
		widths = measure(rows)
		if shrink(rows[0], widths, limit, minimumCell) {
			return rows, widths
		}
	}
	shrink(rows[0], widths, limit, leastCell)
	return rows, widths
}

// without leaves a column out.
func without(rows [][]string, column string) [][]string {
	i := slices.Index(rows[0], column)
	if i < 0 {
		return rows
	}
	out := make([][]string, len(rows))
	for n, row := range rows {
		out[n] = slices.Delete(slices.Clone(row), i, i+1)
	}
	return out
}

// shrink narrows the widest column that may be cut by one cell until the row
// fits, and reports whether it does.
func shrink(header []string, widths []int, limit, least int) bool {
	total := len(columnGap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > limit; total-- {
		widest := -1
		for i, w := range widths {
			if w > least && !slices.Contains(whole, header[i]) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

func line(row []string, widths []int, paint func(string) string) string {
	var b strings.Builder
	for i, c := range row {
		c = clip(c, widths[i])
		b.WriteString(paint(c))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(c))) + columnGap)
		}
	}
	return b.String() + "\n"
}

// clip cuts s to a number of cells.
func clip(s string, cells int) string {
	if lipgloss.Width(s) <= cells {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && lipgloss.Width(string(runes)) > cells-1 {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
