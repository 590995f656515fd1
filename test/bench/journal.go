//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// appendsPerSecond is goal 7: parallel callers that append, compared with sequential durable
// writes.
func appendsPerSecond(ctx context.Context, b *bench) (_ []*line, err error) {
	s, err := b.newStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close(context.WithoutCancel(ctx))) }()
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	counts := []int{64, 256}
	lines := make([]*line, len(counts))
	for i, callers := range counts {
		lines[i] = &line{
			goal: "7", what: fmt.Sprintf("durable appends, %d callers", callers), floorName: "fdatasync, one at a time",
			unit: "/s", limit: atLeast([]float64{20, 30}[i]),
		}
	}
	return lines, b.each(ctx, func() error {
		for i, callers := range counts {
			floor, err := file.rate(b.size.floor)
			if err != nil {
				return err
			}
			product, err := s.rate(ctx, callers, b.size.throughput)
			if err != nil {
				return err
			}
			lines[i].add(floor, product)
		}
		return nil
	})
}

// oneAppend is goal 8: a single append compared with a single fdatasync, and the additional time of
// a long journal.
func oneAppend(ctx context.Context, b *bench) (_ []*line, err error) {
	short, err := b.newStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, short.db.Close(context.WithoutCancel(ctx))) }()
	if err := short.fill(ctx, journal.CheckpointEvery, alike); err != nil {
		return nil, err
	}
	big, err := b.bigJournal(ctx)
	if err != nil {
		return nil, err
	}
	long, err := big.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, long.db.Close(context.WithoutCancel(ctx))) }()
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	one := &line{goal: "8", what: "one durable append, p50", floorName: "fdatasync p50", unit: "us", limit: atMost(1.3)}
	grown := &line{
		goal: "8", what: fmt.Sprintf("one durable append at %d events", b.size.events), floorName: "at 1000 events",
		unit: "us", limit: atMost(1.1),
	}
	return []*line{one, grown}, b.each(ctx, func() error {
		floor, err := p50(b.size.appends, file.append)
		if err != nil {
			return err
		}
		few, err := p50(b.size.appends, func() error { return short.append(ctx) })
		if err != nil {
			return err
		}
		many, err := p50(b.size.appends, func() error { return long.append(ctx) })
		one.add(floor, few)
		grown.add(few, many)
		return err
	})
}

// journalVerify is the first half of goal 14: `palyra journal verify` without
// a daemon.
func journalVerify(ctx context.Context, b *bench) ([]*line, error) {
	big, err := b.bigJournal(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{goal: "14", what: "journal verify", unit: "events/s", limit: atLeast(300_000)}
	return []*line{l}, b.each(ctx, func() error {
		started := time.Now()
		sum, err := sqlite.Verify(ctx, big.path(), big.keys.origin, big.keys.known)
		l.add(0, perSecond(int(sum.Events), time.Since(started)))
		return err
	})
}

// idleAndStart is goal 13, with the big journal: the resources of an idle daemon, and the time
// until it is ready.
func idleAndStart(ctx context.Context, b *bench) ([]*line, error) {
	big, err := b.bigJournal(ctx)
	if err != nil {
		return nil, err
	}
	idle := &line{goal: "13", what: "idle daemon, resident memory", unit: "MiB", limit: atMost(60)}
	start := &line{goal: "13", what: fmt.Sprintf("start to ready, %d events", b.size.events), unit: "ms", limit: atMost(500)}
	return []*line{idle, start}, b.each(ctx, func() error {
		took, err := big.gateway.start()
		if err != nil {
			return err
		}
		pause(ctx, b.size.settle)
		resident, err := big.gateway.resident()
		idle.add(0, resident/(1<<20))
		start.add(0, float64(took.Microseconds())/1e3)
		return errors.Join(err, big.gateway.stop())
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// bigJournal is the state directory of a gateway after a long operation. It is built once and
// shared by all goals that need it.
type bigJournal struct {
	gateway *gateway
	keys    keys
}

func (b *bench) bigJournal(ctx context.Context) (*bigJournal, error) {
	if b.big != nil {
		return b.big, nil
	}
	b.say("building a journal of %d events", b.size.events)
	g, _, err := b.running("", "")
	if err != nil {
		return nil, err
	}
	if err := g.stop(); err != nil {
		return nil, err
	}
	authority, _, err := ca.Open(filepath.Join(g.state(), "ca"), ca.Options{})
	if err != nil {
		return nil, err
	}
	big := &bigJournal{gateway: g}
	if big.keys, err = keysOf(authority); err != nil {
		return nil, err
	}
	s, err := big.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.fill(ctx, b.size.events, alike), s.db.Close(ctx)); err != nil {
		return nil, err
	}
	b.big = big
	return big, nil
}

func (j *bigJournal) path() string { return filepath.Join(j.gateway.state(), "palyra.db") }

func (j *bigJournal) open(ctx context.Context) (*store, error) {
	return openStore(ctx, j.path(), j.keys)
}

// close is called at the end of the harness, because a daemon may still run after an error.
func (j *bigJournal) close(context.Context) error { return j.gateway.stop() }

// keys are the checkpoint keys of a gateway.
type keys struct {
	origin string
	signer *journal.Key
	known  note.Verifiers
}

func keysOf(a *ca.Authority) (k keys, err error) {
	if k.signer, err = journal.ParseKey(a.Journal.Signer()); err != nil {
		return k, err
	}
	k.origin = k.signer.Name()
	k.known, err = journal.ParseKeys(a.Journal.Verifiers()...)
	return k, err
}

// store is a journal without a daemon.
type store struct {
	db  *sqlite.DB
	log *journal.Log
}

// newStore creates an empty store.
func (b *bench) newStore(ctx context.Context) (*store, error) {
	dir, err := b.path("journal")
	if err != nil {
		return nil, err
	}
	authority, _, err := ca.Open(filepath.Join(dir, "ca"), ca.Options{})
	if err != nil {
		return nil, err
	}
	k, err := keysOf(authority)
	if err != nil {
		return nil, err
	}
	return openStore(ctx, filepath.Join(dir, "palyra.db"), k)
}

// openStore opens a store with the vault of its state directory, as its palyrad does.
func openStore(ctx context.Context, path string, k keys) (*store, error) {
	ring, err := kek.Open(kek.Options{Dir: filepath.Dir(path), Gateway: k.origin, Backend: kek.InFile})
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{Origin: k.origin, Verifiers: k.known, Results: vault.Ring{Wrapper: vault.NewWrapper(ring)}})
	if err != nil {
		return nil, err
	}
	log, err := journal.New(db, journal.Options{Key: k.signer})
	if err != nil {
		return nil, errors.Join(err, db.Close(ctx))
	}
	return &store{db, log}, nil
}

// draft returns an event of typical size.
func draft() event.Draft {
	return event.Draft{
		Code: event.Evaluated, Session: "01JD0000000000000000000000", Run: "01JD0000000000000000000001",
		Actor: "agent:bench", Subject: "01JD0000000000000000000002",
		Payload: json.RawMessage(fmt.Sprintf(`{"digest":"%s","n":1,"policies":["%s"],"verdict":"allow"}`,
			strings.Repeat("0", 64), strings.Repeat("p", eventSize-160))),
	}
}

func alike(int) event.Draft { return draft() }

func (s *store) append(ctx context.Context) error {
	_, err := s.log.Append(ctx, draft())
	return err
}

// fill appends events, the nth made by draft, with checkpoints at the daemon's interval.
func (s *store) fill(ctx context.Context, events int, draft func(n int) event.Draft) error {
	batch := make([]event.Draft, 0, journal.CheckpointEvery)
	for left := events; left > 0; left -= len(batch) {
		batch = batch[:0]
		for i := range min(left, cap(batch)) {
			batch = append(batch, draft(events-left+i))
		}
		if _, err := s.log.Append(ctx, batch...); err != nil {
			return err
		}
		if _, err := s.log.Checkpoints.Write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rate returns the number of events that parallel callers make durable per second.
func (s *store) rate(ctx context.Context, callers, events int) (float64, error) {
	runtime.GC() // excludes the garbage of earlier rounds
	var left atomic.Int64
	left.Store(int64(events))
	errs := make([]error, callers)
	started := time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				errs[i] = s.append(ctx)
			}
		})
	}
	wg.Wait()
	return perSecond(events, time.Since(started)), errors.Join(errs...)
}
