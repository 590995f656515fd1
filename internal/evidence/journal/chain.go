package journal

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"

	"palyra/internal/core/event"
	"palyra/internal/core/progress"
)

const (
	// stretchSize is the number of events that a worker verifies at a time.
	stretchSize = 4096
	// maxWorkers is low, so that connections of a store's pool remain for other readers.
	maxWorkers = 3
)

// link has the fields of a verified event that are required to follow the chain.
type link struct {
	head   Head
	erased bool
	// signed is a copy of the whole event if it is a checkpoint or a rotation of the signing key.
	signed *Event
}

func linkOf(e *Event) link {
	l := link{head: e.Head(), erased: e.Erased()}
	if e.Code == event.Checkpoint || e.Code == event.KeyRotated {
		c := *e
		c.Payload, c.Salt = bytes.Clone(e.Payload), bytes.Clone(e.Salt)
		l.signed = &c
	}
	return l
}

// stretch is a part of the chain, verified independently of the parts before it.
type stretch struct {
	after, upTo int64
	done        chan struct{}
	// first is the first event as read, for checking its link to the previous stretch. It is nil if
	// the stretch is empty.
	first *Event
	links []link
	// err is the first fault; links end before it.
	err error
}

// verifyChain checks every event after a sequence number up to a head, and passes each to visit
// (which may be nil) in order. Several stretches of the chain are verified in parallel, but the
// error is always the one with the lowest sequence number. The meter of ctx counts events.
func verifyChain(ctx context.Context, src Source, after int64, head Head, visit func(link) error) error {
	prev, err := headAt(ctx, src, after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	counted := progress.From(ctx)
	counted.Expect(head.Seq - after)
	workers := min(runtime.GOMAXPROCS(0), maxWorkers)
	todo := make(chan *stretch)
	ordered := make(chan *stretch, workers) // bounds how far workers run ahead
	wg.Go(func() { divide(ctx, after, head.Seq, todo, ordered) })
	for range workers {
		wg.Go(func() {
			for s := range todo {
				s.verify(ctx, src)
				close(s.done)
			}
		})
	}
	for s := range ordered {
		<-s.done
		if prev, err = s.join(prev, visit); err != nil {
			return err
		}
		counted.Add(s.upTo - s.after)
	}
	return checkEnd(ctx, prev, head, after)
}

// divide sends stretches to the workers until the chain ends or ctx ends.
func divide(ctx context.Context, after, upTo int64, todo, ordered chan<- *stretch) {
	defer close(ordered)
	defer close(todo)
	for ; after < upTo; after += stretchSize {
		s := &stretch{after: after, upTo: min(after+stretchSize, upTo), done: make(chan struct{})}
		select {
		case ordered <- s:
		case <-ctx.Done():
			return
		}
		todo <- s // workers process every stretch that is sent, so that every done closes
	}
}

// verify checks the events of the stretch and the links between them.
func (s *stretch) verify(ctx context.Context, src Source) {
	s.links = make([]link, 0, s.upTo-s.after)
	var prev Head
	s.err = src.Scan(ctx, s.after, s.upTo, func(e *Event) error {
		if s.first == nil {
			c := *e
			s.first = &c
		} else if err := e.CheckAfter(prev); err != nil {
			return err
		}
		if err := e.CheckSelf(); err != nil {
			return err
		}
		prev = e.Head()
		s.links = append(s.links, linkOf(e))
		return nil
	})
}

// join checks the link to the previous stretch and visits the events of this one.
func (s *stretch) join(prev Head, visit func(link) error) (Head, error) {
	if s.first != nil {
		if err := s.first.CheckAfter(prev); err != nil {
			return prev, err
		}
	}
	for _, l := range s.links {
		if visit != nil {
			if err := visit(l); err != nil {
				return prev, err
			}
		}
		prev = l.head
	}
	return prev, s.err
}

// checkEnd compares the end of the chain with the expected head.
func checkEnd(ctx context.Context, prev, head Head, after int64) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case prev.Seq < head.Seq:
		return corrupt(prev.Seq+1, fmt.Sprintf("events are missing: the journal should end at %d", head.Seq))
	case after < head.Seq && prev.Hash != head.Hash:
		return corrupt(head.Seq, "the last event is not the head")
	}
	return nil
}
