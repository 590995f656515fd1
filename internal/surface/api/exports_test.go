package api_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/approval"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

func exportedJournal(t *testing.T, c *client, form palyrav1.ExportFormat) []byte {
	t.Helper()
	var text []byte
	for _, part := range must.Get(collect(c.journal().ExportJournal(t.Context(), &palyrav1.ExportJournalRequest{Format: form})))(t) {
		text = append(text, part.GetData()...)
	}
	return text
}

func lineColumn(t *testing.T, text []byte) []byte {
	t.Helper()
	var lines []byte
	for _, row := range must.Get(csv.NewReader(bytes.NewReader(text)).ReadAll())(t)[1:] {
		lines = append(append(lines, row[len(row)-1]...), '\n')
	}
	return lines
}

// The journal's export is one stream, whose lines are the same in every format.
func TestJournalExportForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.coder.call(reading()))(t)
	for form, lines := range map[palyrav1.ExportFormat]func([]byte) []byte{
		palyrav1.ExportFormat_EXPORT_FORMAT_UNSPECIFIED: func(b []byte) []byte { return b },
		palyrav1.ExportFormat_EXPORT_FORMAT_NDJSON:      func(b []byte) []byte { return b },
		palyrav1.ExportFormat_EXPORT_FORMAT_CSV:         func(b []byte) []byte { return lineColumn(t, b) },
	} {
		text := exportedJournal(t, w.eve, form)
		if sum, err := journal.VerifyExport(bytes.NewReader(lines(text)), journal.ExportOptions{}); err != nil || sum.Events < 2 {
			t.Errorf("%s: %d events, %v", form, sum.Events, err)
		}
	}
	var all struct {
		Header, Trailer map[string]any
		Events          []json.RawMessage
	}
	text := exportedJournal(t, w.eve, palyrav1.ExportFormat_EXPORT_FORMAT_JSON)
	if must.Do(t, json.Unmarshal(text, &all)); len(all.Events) < 2 || all.Header["format"] != journal.ExportFormat || all.Trailer["kind"] != "trailer" {
		t.Errorf("%s", text)
	}
}

func TestApprovalExportForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	export := func(form palyrav1.ExportFormat) (text []byte) {
		for _, part := range must.Get(collect(w.eve.approvals().ExportApprovals(t.Context(), &palyrav1.ExportApprovalsRequest{Format: form})))(t) {
			text = append(text, part.GetData()...)
		}
		return text
	}
	plain := export(palyrav1.ExportFormat_EXPORT_FORMAT_NDJSON)
	if got := lineColumn(t, export(palyrav1.ExportFormat_EXPORT_FORMAT_CSV)); !bytes.Equal(got, plain) {
		t.Errorf("%s\nwant\n%s", got, plain)
	}
	var all struct{ Trailer *approval.Trailer }
	must.Do(t, json.Unmarshal(export(palyrav1.ExportFormat_EXPORT_FORMAT_JSON), &all))
	if all.Trailer == nil {
		t.Error("JSON has no trailer")
	}
}
