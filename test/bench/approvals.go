//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/approval"
	"palyra/internal/identity/ca"
	"palyra/internal/store/sqlite"
)

// asking returns the input of a call that waits for a person. Each input differs, because
// identical approval requests are merged.
func asking(n int) string { return fmt.Sprintf(`{"content":"new\n","path":"file-%d.txt"}`, n) }

// approvalWake is goal 11: the time from sending an approval until the waiting client receives the
// decision. It includes a round trip, the durable vote and the durable decision.
func approvalWake(ctx context.Context, b *bench) (_ []*line, err error) {
	g, voter, err := b.running("", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	caller, err := g.member("caller")
	if err != nil {
		return nil, err
	}
	middle := &line{goal: "11", what: "approval answered -> call resumes, p50", unit: "ms", limit: atMost(2)}
	tail := &line{goal: "11", what: "approval answered -> call resumes, p99", unit: "ms", limit: atMost(10)}
	n := 0
	wake := func() (float64, error) {
		n++
		return wakeOnce(ctx, caller, voter, asking(n))
	}
	if _, err := wake(); err != nil {
		return nil, err
	}
	return []*line{middle, tail}, b.each(ctx, func() error {
		waits := make([]float64, b.size.waits)
		for i := range waits {
			if waits[i], err = wake(); err != nil {
				return err
			}
		}
		middle.add(0, median(waits)/1e3)
		tail.add(0, percentile(waits, 99)/1e3)
		return nil
	})
}

// wakeOnce makes one call that requires approval, and approves it. It returns the time from the
// answer to the decision, in microseconds.
func wakeOnce(ctx context.Context, caller, voter *client, input string) (took float64, err error) {
	var voted sync.WaitGroup
	var answered time.Time
	var voteErr error
	err = caller.follow(ctx, "fs.write", input, func(m *palyrav1.CallToolResponse) error {
		switch e := m.GetEvent().(type) {
		case *palyrav1.CallToolResponse_ApprovalRequested:
			answered = time.Now()
			voted.Go(func() { voteErr = voter.vote(ctx, e.ApprovalRequested.GetApproval()) })
		case *palyrav1.CallToolResponse_Decision:
			took = micros(time.Since(answered))
		}
		return nil
	})
	voted.Wait()
	return took, errors.Join(err, voteErr)
}

// waitingCalls is the first half of goal 12: the growth of the daemon's memory for each call
// that waits for approval.
func waitingCalls(ctx context.Context, b *bench) ([]*line, error) {
	resident := &line{goal: "12", what: fmt.Sprintf("%d calls waiting: resident memory per call", b.size.waiting), unit: "KiB", limit: atMost(64)}
	heap := &line{goal: "12", what: fmt.Sprintf("%d calls waiting: heap per call", b.size.waiting), unit: "KiB", limit: atMost(64)}
	return []*line{resident, heap}, b.each(ctx, func() error { return b.waitOnce(ctx, resident, heap) })
}

// waitOnce makes all calls of a new daemon wait at once.
func (b *bench) waitOnce(ctx context.Context, resident, heap *line) (err error) {
	g, _, err := b.running("", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	callers := make([]*client, b.size.principals)
	for i := range callers {
		if callers[i], err = g.member(fmt.Sprintf("caller-%d", i)); err != nil {
			return err
		}
		if err := callers[i].call(ctx, "echo", "{}"); err != nil { // opens its connection
			return err
		}
	}
	before, err := g.memory(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithCancel(ctx)
	asked := make(chan error, b.size.waiting)
	var calls sync.WaitGroup
	for i := range b.size.waiting {
		calls.Go(func() {
			told := false
			err := callers[i%len(callers)].follow(waiting, "fs.write", asking(i), func(m *palyrav1.CallToolResponse) error {
				if m.GetApprovalRequested() != nil {
					told = true
					asked <- nil
				}
				return nil
			})
			if !told {
				asked <- fmt.Errorf("call %d does not wait: %w", i, err)
			}
		})
	}
	var errs []error
	for range b.size.waiting {
		errs = append(errs, <-asked)
	}
	after, err := g.memory(ctx)
	cancel()
	calls.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	perCall := 1024 * float64(b.size.waiting)
	resident.add(0, (after.resident-before.resident)/perCall)
	heap.add(0, (after.heap-before.heap)/perCall)
	return nil
}

// memory is the memory of the daemon, in bytes.
type memory struct{ resident, heap float64 }

func (g *gateway) memory(ctx context.Context) (m memory, err error) {
	if m.resident, err = g.resident(); err != nil {
		return m, err
	}
	m.heap, err = g.heap(ctx)
	return m, err
}

// approvalsPage is the second half of goal 12: a page of a long history.
func approvalsPage(ctx context.Context, b *bench) (_ []*line, err error) {
	g, voter, err := b.running("", "")
	if err != nil {
		return nil, err
	}
	_, err = wakeOnce(ctx, voter, voter, asking(0))
	if err := errors.Join(err, g.stop()); err != nil {
		return nil, err
	}
	if err := g.multiply(ctx, b.size.records); err != nil {
		return nil, err
	}
	if _, err := g.start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	if voter, err = g.operator(); err != nil {
		return nil, err
	}
	l := &line{goal: "12", what: fmt.Sprintf("a page of 100 of %d approvals, p99", b.size.records), unit: "ms", limit: atMost(20)}
	return []*line{l}, b.each(ctx, func() error {
		token := ""
		pages, err := sample(b.size.pages, func() error {
			page, err := voter.approvals.ListApprovals(ctx, &palyrav1.ListApprovalsRequest{PageSize: 100, PageToken: token})
			token = page.GetNextPageToken()
			return err
		})
		l.add(0, percentile(pages, 99)/1e3)
		return err
	})
}

// multiply copies the one approval of a stopped daemon until there are n.
func (g *gateway) multiply(ctx context.Context, n int) (err error) {
	authority, _, err := ca.Open(filepath.Join(g.state(), "ca"), ca.Options{})
	if err != nil {
		return err
	}
	k, err := keysOf(authority)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, filepath.Join(g.state(), "palyra.db"), k)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close(ctx)) }()
	approvals := sqlite.NewApprovals(s.db)
	page, _, err := approvals.Records(ctx, approval.Filter{PageSize: 1})
	if err != nil || len(page) != 1 {
		return errors.Join(err, errors.New("no approval to copy was found"))
	}
	for left := n - 1; left > 0; left -= 1000 {
		err := approvals.Update(ctx, func(tx approval.Tx) error {
			for i := range min(left, 1000) {
				r := earlier(page[0], left-i)
				if err := tx.InsertRecord(&r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// earlier returns a copy of a record that was requested that many minutes earlier.
func earlier(r approval.Record, minutes int) approval.Record {
	r.CreatedAt = r.CreatedAt.Add(-time.Duration(minutes) * time.Minute)
	r.ID = ulid.MustNew(ulid.Timestamp(r.CreatedAt), rand.Reader).String()
	r.ProposalID, r.Run = r.ID, r.ID
	return r
}
