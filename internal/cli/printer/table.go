package printer

import (
	"cmp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

const (
	columnGap = "  "
	// MinimumCell is the narrowest column while others can be dropped, leastCell when none can.
	MinimumCell = 12
	leastCell   = 4
)

// layout formats the rows of tables.
type layout struct {
	// wide adds the columns of the wide format, and truncates none.
	wide bool
	// limit is the number of cells of a row; 0 means no limit.
	limit int
	style Palette
}

// layout returns the layout of tables at stdout.
func (a *Printer) layout() layout {
	t := layout{wide: a.Format() == FormatWide, style: a.OutStyle()}
	if a.OutTerminal {
		t.limit = a.Width
	}
	return t
}

// rows formats records in columns. On a terminal, columns are truncated with an ellipsis, or
// dropped, until a row fits. Elsewhere, and with -o wide, columns are complete.
func (t layout) rows(l Listing, records []Record) string {
	rows := make([][]string, 0, len(records)+1)
	rows = append(rows, t.header(l))
	for _, r := range records {
		rows = append(rows, t.row(r))
	}
	widths := measure(rows)
	if t.limit > 0 && !t.wide {
		rows, widths = l.fit(rows, t.limit)
	}
	var b strings.Builder
	for i, row := range rows {
		b.WriteString(line(row, widths, t.style.row(i)))
	}
	return b.String()
}

// streamRow formats one record of a stream.
func (t layout) streamRow(l Listing, r Record, first bool) string {
	header := t.header(l)
	widths := measure([][]string{header})
	for i, w := range l.streamWidths() {
		if i < len(widths) {
			widths[i] = max(widths[i], w)
		}
	}
	rows := [][]string{header, t.row(r)}
	if t.limit > 0 && !t.wide {
		rows, widths = l.fitStream(rows, widths, t.limit)
	}
	row := line(rows[1], widths, t.style.row(1))
	if first {
		return line(rows[0], widths, t.style.row(0)) + row
	}
	return row
}

// fitStream is fit for a row whose columns have fixed widths, so that later rows align.
func (l Listing) fitStream(rows [][]string, widths []int, limit int) (fitting [][]string, fitted []int) {
	usual := make([]string, len(widths))
	for i, w := range widths {
		usual[i] = strings.Repeat(" ", w)
	}
	row := slices.Clone(rows[1])
	for i := range row {
		row[i] = Clip(row[i], widths[i])
	}
	all, fitted := l.fit([][]string{rows[0], row, usual}, limit)
	return all[:2], fitted
}

// streamWidths are usual widths by column name.
func (l Listing) streamWidths() []int {
	usual := map[string]int{
		"ID": 26, "SUBJECT": 26, "SEQ": 7, "AT": 20, "CODE": 8, "STATE": 9, "TOOL": 12, "ACTOR": 16, "FOR": 16, "EVENT": 18, "WHAT": 24,
	}
	widths := make([]int, len(l.Columns))
	for i, c := range l.Columns {
		widths[i] = usual[c]
	}
	return widths
}

func (t layout) header(l Listing) []string {
	if t.wide {
		return append(append([]string{}, l.Columns...), l.Wide...)
	}
	return l.Columns
}

func (t layout) row(r Record) []string {
	if t.wide {
		return visibleCells(append(append([]string{}, r.Cells...), r.Wide...))
	}
	return visibleCells(r.Cells)
}

// visibleCells returns escaped cells, with a dash for empty ones.
func visibleCells(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = cmp.Or(VisibleLine(c), "-")
	}
	return out
}

// Columns writes a label and rows below it, the first of which is the header.
func (p *Page) Columns(label string, rows [][]string) {
	p.b.WriteString(p.Style.Dim(label) + "\n")
	for i, row := range rows {
		rows[i] = visibleCells(row)
	}
	widths := measure(rows)
	for i, row := range rows {
		p.b.WriteString(columnGap + line(row, widths, p.Style.row(i)))
	}
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

// whole are the columns that are useless when truncated: ids and times.
var whole = []string{
	"ID", "KEY", "SEQ", "SUBJECT", "AT", "LEFT", "ENDS", "CERTIFICATE ENDS", "REVOKED", "APPROVAL", "COMMITTED", "CREATED", "EXPIRES", "LAST",
	"LAST USED", "LOADED", "QUEUED", "SINCE", "STARTED", "UPDATED",
}

// roomy has the minimum widths of descriptive columns, for which other columns are dropped.
var roomy = map[string]int{"SUMMARY": 40}

// fit makes rows fit a terminal; the first row is the header. It truncates columns, then drops
// the columns that the listing can omit, and then truncates the others to almost nothing. Ids
// and times are not truncated, even if the row is then too long.
func (l Listing) fit(rows [][]string, limit int) (fitting [][]string, widths []int) {
	for _, drop := range append([]string{""}, l.Drop...) {
		rows = without(rows, drop)
		widths = measure(rows)
		if shrink(rows[0], widths, limit, func(column string) int { return max(MinimumCell, roomy[column]) }) {
			return rows, widths
		}
	}
	shrink(rows[0], widths, limit, func(string) int { return leastCell })
	return rows, widths
}

// without drops a column.
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
func shrink(header []string, widths []int, limit int, least func(column string) int) bool {
	total := len(columnGap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > limit; total-- {
		widest := -1
		for i, w := range widths {
			if w > least(header[i]) && !slices.Contains(whole, header[i]) && (widest < 0 || w > widths[widest]) {
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
		c = Clip(c, widths[i])
		b.WriteString(paint(c))
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(c))) + columnGap)
		}
	}
	return b.String() + "\n"
}

// Clip cuts s to a number of cells.
func Clip(s string, cells int) string {
	if lipgloss.Width(s) <= cells {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && lipgloss.Width(string(runes)) > cells-1 {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
