package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite/sqlitetest"
)

// benchDraft returns an event of typical size: about 600 bytes.
func benchDraft() event.Draft {
	return event.Draft{
		Code: event.Evaluated, Session: "01JD0000000000000000000000", Run: "01JD0000000000000000000001",
		Actor: "agent:bench", Subject: "01JD0000000000000000000002",
		Payload: json.RawMessage(fmt.Sprintf(`{"digest":"%s","n":1,"policies":["%s"],"verdict":"allow"}`, strings.Repeat("0", 64), strings.Repeat("p", 440))),
	}
}

func benchmarkAppend(b *testing.B, callers int) {
	db := sqlitetest.Open(b)
	d := benchDraft()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := db.Append(context.Background(), d); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppend1(b *testing.B)   { benchmarkAppend(b, 1) }
func BenchmarkAppend16(b *testing.B)  { benchmarkAppend(b, 16) }
func BenchmarkAppend64(b *testing.B)  { benchmarkAppend(b, 64) }
func BenchmarkAppend256(b *testing.B) { benchmarkAppend(b, 256) }

// BenchmarkVerify verifies a journal of 100,000 events per iteration.
func BenchmarkVerify(b *testing.B) {
	const events = 100_000
	db := sqlitetest.Open(b)
	d := benchDraft()
	var batch []event.Draft
	for range 1000 {
		batch = append(batch, d)
	}
	for range events / len(batch) {
		if _, err := db.Append(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for range b.N {
		if _, err := journal.VerifyAll(context.Background(), db, sqlitetest.Origin, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
}
