//go:build unix

package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/attest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// benchCall returns the records of a governed call of a builtin: events as large as echo's, its
// attestation and its place in a session.
func benchCall(joined string, result []byte) call.Entry {
	id, attestation := ulid.Make().String(), ulid.Make().String()
	alice := access.User("alice")
	const device = "01JD0000000000000000000000"
	envelope := fmt.Sprintf(`{"payload":%q,"payloadType":"application/vnd.in-toto+json"}`, id+strings.Repeat("A", 3000))
	entry := call.Entry{
		Blobs:  [][]byte{result},
		Member: &session.Member{Session: joined, Proposal: id, New: nil},
		Attestation: &call.StoredAttestation{
			Envelope: attest.Envelope{ID: attestation, JSON: []byte(envelope), SHA256: strings.Repeat("0", 64)}, ProposalID: id, CallDigest: "sha256:" + strings.Repeat("0", 64),
		},
	}
	for _, d := range []struct {
		code event.Code
		size int
	}{{event.Proposed, 543}, {event.Evaluated, 1433}, {event.Decided, 889}, {event.Attested, 640}} {
		payload := fmt.Sprintf(`{"proposal_id":%q,"text":%q}`, id, strings.Repeat("p", d.size-60))
		if d.code == event.Attested {
			payload = fmt.Sprintf(`{"attestation_id":%q,"envelope":%s,"proposal_id":%q,"text":%q}`, attestation, envelope, id, strings.Repeat("p", d.size-60))
		}
		entry.Drafts = append(entry.Drafts, event.Draft{Code: d.code, Session: device + ".default", Run: id, Actor: alice.String(), Subject: id, Payload: json.RawMessage(payload)})
	}
	entry.Drafts[2].Unasked = &event.Unasked{RequestedBy: alice.String(), OnBehalfOf: alice.String(), Tool: "echo", Subject: "echo", CallDigest: "sha256:" + strings.Repeat("0", 64)}
	return entry
}

// BenchmarkCall records calls as the pipeline does that decides and attests at once. It
// measures the processor time per call, which does not depend on other work on the machine, and
// the number of written pages.
func BenchmarkCall(b *testing.B) {
	path := filepath.Join(b.TempDir(), "palyra.db")
	db := sqlitetest.OpenAt(b, path, sqlite.Options{})
	calls := sqlite.NewCalls(db)
	joined := ulid.Make().String()
	first := benchCall(joined, []byte("hello"))
	first.Member.New = &session.Row{ID: joined, Key: session.Key{Principal: access.User("alice"), Device: "01JD0000000000000000000000"}, OnBehalfOf: access.User("alice"), StartedAt: time.Now()}
	if _, err := calls.Record(context.Background(), first); err != nil {
		b.Fatal(err)
	}
	entries := make([]call.Entry, b.N)
	for i := range entries {
		entries[i] = benchCall(joined, []byte("hello"))
	}
	runtime.GC()
	b.ReportAllocs()
	began := cpu(b)
	b.ResetTimer()
	for i := range entries {
		if _, err := calls.Record(context.Background(), entries[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(walPages(b, db, path, joined), "pages/op")
}

// walPages returns the number of pages that a call writes to the write-ahead log of the store
// at path.
func walPages(b *testing.B, db *sqlite.DB, path, joined string) float64 {
	const calls = 64
	must.Do(b, sqlite.WriterPragma(db, "PRAGMA wal_checkpoint(TRUNCATE)"))
	for range calls {
		must.Get(sqlite.NewCalls(db).Record(context.Background(), benchCall(joined, []byte("hello"))))(b)
	}
	const header, page = 32, 24 + 4096
	return float64(must.Get(os.Stat(path+"-wal"))(b).Size()-header) / page / calls
}
