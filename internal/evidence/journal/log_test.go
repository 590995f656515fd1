package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

func TestRunMakesCheckpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(time.Now)
		log := newLog(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- log.Checkpoints.Run(ctx) }()

		time.Sleep(time.Hour)
		assertHead(t, s, 0, "an empty journal gets no checkpoint")
		fill(t, log, 1)
		time.Sleep(journal.CheckpointAfter - time.Second)
		assertHead(t, s, 1, "too early for a checkpoint")
		time.Sleep(2 * time.Second)
		assertHead(t, s, 2, "a checkpoint follows 60 s after an event")
		time.Sleep(time.Hour)
		assertHead(t, s, 2, "an idle journal does not grow")
		fill(t, log, journal.CheckpointEvery-1)
		synctest.Wait()
		assertHead(t, s, 1001, "999 events since the checkpoint are not enough")
		fill(t, log, 1)
		synctest.Wait()
		assertHead(t, s, 1003, "a checkpoint follows the thousandth event")

		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if sum, err := log.VerifyFull(t.Context()); err != nil || sum.Checkpoints != 2 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

func assertHead(t *testing.T, s *memStore, want int64, what string) {
	t.Helper()
	if got := s.Head().Seq; got != want {
		t.Errorf("%s: head %d, want %d", what, got, want)
	}
}

func TestRunTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(time.Now)
		log := newLog(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		fill(t, log, 1)
		s.refuse = reason.Errorf(reason.JournalUnavailable, "disk full")
		go func() { done <- log.Checkpoints.Run(ctx) }()
		time.Sleep(2 * journal.CheckpointAfter)
		assertHead(t, s, 1, "nothing can be written")
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		time.Sleep(2 * journal.CheckpointAfter)
		assertHead(t, s, 2, "the checkpoint is made up for")
		cancel()
		<-done
	})
}

func TestCheckpointOfNothingNew(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	if cp := checkpoint(t, log); cp.Size != 0 || s.Head().Seq != 0 {
		t.Errorf("an empty journal got checkpoint %+v", cp)
	}
	fill(t, log, 2)
	first := checkpoint(t, log)
	if again := checkpoint(t, log); again != first || s.Head().Seq != 3 {
		t.Errorf("the second checkpoint is %+v, head %d", again, s.Head().Seq)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(testClock())
		log := newLog(t, s, 1)
		fill(t, log, 5)
		s.Publish(s.Head(), nil) // discard the state in memory: the store returns the first pages
		enough := errors.New("enough")
		var got []int64
		done := make(chan error)
		go func() {
			done <- log.Follow(t.Context(), 2, func(e journal.Event) error {
				if got = append(got, e.Seq); e.Seq == 3000 {
					return enough
				}
				return nil
			})
		}()
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("got %v, want 3 to 5", got)
		}
		fill(t, log, 2995)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Follow: %v", err)
		}
		for i, seq := range got {
			if seq != int64(i+3) {
				t.Fatalf("gap or repeat: place %d holds %d", i, seq)
			}
		}
	})
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore(testClock())
		log := newLog(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- log.Follow(ctx, 0, func(journal.Event) error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		go func() { done <- log.Follow(t.Context(), 0, func(journal.Event) error { return nil }) }()
		synctest.Wait()
		s.Close()
		if err := <-done; reason.Of(err) != reason.ShuttingDown {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestFollowOfADamagedStore(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 5)
	s.Publish(s.Head(), nil)
	s.events = s.events[:3]
	err := log.Follow(t.Context(), 0, func(journal.Event) error { return nil })
	assertCorrupt(t, err, 4)
}

func TestProofs(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 300)
	checkpoint(t, log)
	fill(t, log, 300)
	known := must.Get(journal.ParseKeys(log.Checkpoints.Keys()...))(t)
	for _, seq := range []int64{1, 2, 255, 256, 257, 300, 301, 302, 512, 601, 602} {
		p, err := log.Prove(t.Context(), seq)
		if err != nil {
			t.Fatalf("proving %d: %v", seq, err)
		}
		if err := journal.VerifyProof(p, gateway, known); err != nil {
			t.Errorf("proof of %d: %v", seq, err)
		}
		assertProofBreaks(t, p, known)
	}
	if s.Head().Seq != 602 {
		t.Errorf("proofs made the journal grow to %d, want 602 (one checkpoint)", s.Head().Seq)
	}
	if _, err := log.Prove(t.Context(), 603); reason.Of(err) != reason.NotFound {
		t.Errorf("proving an event that is not there: %v", err)
	}
}

func assertProofBreaks(t *testing.T, p journal.Proof, known note.Verifiers) {
	t.Helper()
	edited := p
	edited.Event.Actor = "user:mallory"
	other := p
	other.Event = journal.Seal(journal.Head{Seq: p.Event.Seq - 1}, draft(7), p.Event.At, journal.Nonce{})
	path := p
	path.Hashes = append([]tlog.Hash(nil), p.Hashes...)
	path.Hashes[0][0] ^= 1
	for name, bad := range map[string]journal.Proof{"edited": edited, "other event": other, "path": path} {
		if journal.VerifyProof(bad, gateway, known) == nil {
			t.Errorf("%s: a falsified proof of %d verified", name, p.Event.Seq)
		}
	}
	if journal.VerifyProof(p, "other.gateway", known) == nil {
		t.Error("a proof verified for another gateway")
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	var checkpoints []journal.Checkpoint
	for _, n := range []int{1, 2, 250, 3, 300, 1} {
		fill(t, log, n)
		checkpoints = append(checkpoints, checkpoint(t, log))
	}
	for i, older := range checkpoints {
		for j, newer := range checkpoints {
			c, err := log.Consistency(t.Context(), older.Size, newer.Size)
			if i > j {
				assertCorrupt(t, journal.VerifyConsistency(older, newer, nil), newer.Size+1)
				continue
			}
			must.Do(t, err)
			if err := journal.VerifyConsistency(older, newer, c.Hashes); err != nil {
				t.Errorf("%d to %d: %v", older.Size, newer.Size, err)
			}
			forked := older
			forked.Root[0] ^= 1
			assertCorrupt(t, journal.VerifyConsistency(forked, newer, c.Hashes), 1)
		}
	}
}

func TestSealKeepsTimeFromRunningBack(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.FixedZone("x", 3600))
	e := journal.Seal(journal.Head{}, draft(1), at, journal.Nonce{})
	if got := e.At.Format(journal.TimeFormat); got != "2026-05-06T06:08:09.123456Z" {
		t.Errorf("time %s", got)
	}
	next := journal.Seal(e.Head(), draft(2), at.Add(-time.Hour), journal.Nonce{})
	if !next.At.Equal(e.At) {
		t.Errorf("the clock stepped back and the journal's time with it: %v after %v", next.At, e.At)
	}
}

func TestErasedPayloadKeepsTheChain(t *testing.T) {
	t.Parallel()
	s, log := sampleJournal(t)
	s.events[3].Payload, s.events[3].Salt = nil, nil
	sum, err := log.VerifyFull(t.Context())
	if err != nil || sum.Erased != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	// A partial erasure is damage: a remaining salt allows testing guesses.
	s.events[5].Payload = nil
	_, err = log.VerifyFull(t.Context())
	assertCorrupt(t, err, 6)
}

func TestCheckDraft(t *testing.T) {
	t.Parallel()
	good := draft(1)
	must.Do(t, journal.CheckDraft(&good))
	for name, change := range map[string]func(*event.Draft){
		"no code":            func(d *event.Draft) { d.Code = "" },
		"no actor":           func(d *event.Draft) { d.Actor = "" },
		"invalid UTF-8":      func(d *event.Draft) { d.Subject = "\xff" },
		"no payload":         func(d *event.Draft) { d.Payload = nil },
		"array":              func(d *event.Draft) { d.Payload = []byte(`[]`) },
		"white space":        func(d *event.Draft) { d.Payload = []byte(`{"n": 1}`) },
		"keys out of order":  func(d *event.Draft) { d.Payload = []byte(`{"b":1,"a":1}`) },
		"two values":         func(d *event.Draft) { d.Payload = []byte(`{}{}`) },
		"duplicate key":      func(d *event.Draft) { d.Payload = []byte(`{"a":1,"a":1}`) },
		"number not minimal": func(d *event.Draft) { d.Payload = []byte(`{"a":1.0}`) },
	} {
		d := draft(1)
		change(&d)
		if journal.CheckDraft(&d) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestHeaderEncodingIsUnambiguous(t *testing.T) {
	t.Parallel()
	// The same characters in different fields produce another event.
	one, two := draft(1), draft(1)
	one.Session, one.Run = "ab", "c"
	two.Session, two.Run = "a", "bc"
	at := time.Unix(0, 0)
	if journal.Seal(journal.Head{}, one, at, journal.Nonce{}).Hash == journal.Seal(journal.Head{}, two, at, journal.Nonce{}).Hash {
		t.Error("two different headers have one hash")
	}
}

func TestEdgeMatchesTree(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	for i := range 70_000 {
		e := journal.Event{Seq: int64(i + 1), Hash: [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}}
		for _, tile := range s.edge.Append(e.Hash) {
			s.tiles[[2]int64{int64(tile.Level), tile.N}] = tile
		}
		s.events = append(s.events, e)
		if i < 600 && i%7 == 0 || i > 65_500 && i < 65_600 && i%9 == 0 {
			assertSameRoot(t, s)
		}
	}
	assertSameRoot(t, s)
}

func assertSameRoot(t *testing.T, s *memStore) {
	t.Helper()
	tree := journal.NewTree(s.edge.Size(), memTiles{s})
	want := must.Get(tree.Root())(t)
	rebuilt := must.Get(tree.Edge())(t)
	if got := s.edge.Root(); got != want || rebuilt.Root() != want {
		t.Fatalf("size %d: edge, rebuilt edge and tree have different roots", s.edge.Size())
	}
	if ref := referenceRoot(s.events); s.edge.Size() < 600 && ref != want {
		t.Fatalf("size %d: not the root that RFC 6962 defines", s.edge.Size())
	}
}

// referenceRoot implements RFC 6962 section 2.1 literally.
func referenceRoot(events []journal.Event) [32]byte {
	if len(events) == 1 {
		return tlog.RecordHash(events[0].Hash[:])
	}
	k := 1
	for k*2 < len(events) {
		k *= 2
	}
	return tlog.NodeHash(referenceRoot(events[:k]), referenceRoot(events[k:]))
}
