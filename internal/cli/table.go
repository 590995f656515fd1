package cli

import (
	"strings"

	"charm.land/lipgloss/v2"
)

const (
	columnGap = "  "
	// minimumCell is the narrowest a column is cut to.
	minimumCell = 12
)

// table lays records out in columns. On a terminal the widest columns are cut
// until a row fits, with an ellipsis; elsewhere and with -o wide nothing is.
func (a *app) table(l listing, records []record) string {
	rows := make([][]string, 0, len(records)+1)
	rows = append(rows, a.header(l))
	for _, r := range records {
		rows = append(rows, a.row(r))
	}
	widths := measure(rows)
	if limit := a.wide(); limit > 0 && a.format() != formatWide {
		shrink(widths, limit)
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
		"ID": 26, "SUBJECT": 26, "SEQ": 7, "AT": 20, "CODE": 8, "STATE": 9, "TOOL": 12, "ACTOR": 16, "FOR": 16, "EVENT": 18,
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

// shrink narrows the widest column by one cell until the row fits.
func shrink(widths []int, limit int) {
	total := len(columnGap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > limit; total-- {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minimumCell {
			return
		}
		widths[widest]--
	}
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
