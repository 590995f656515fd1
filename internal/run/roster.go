package run

import (
	"context"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/run/model"
)

// Roster has the active runs, and admits new runs until the gateway stops. It is safe for
// concurrent use.
type Roster struct {
	// limit is Limits.ActivePerPrincipal.
	limit int
	// stopping is closed when no more runs are admitted.
	stopping chan struct{}

	// mu guards closing, runs and perPrincipal.
	mu      sync.Mutex
	closing bool
	runs    map[string]*active
	// perPrincipal counts the active runs of each principal.
	perPrincipal map[access.Principal]int
	// driving counts the goroutines that drive runs.
	driving sync.WaitGroup
}

func newRoster(limit int) *Roster {
	return &Roster{limit: limit, stopping: make(chan struct{}), runs: make(map[string]*active), perPrincipal: make(map[access.Principal]int)}
}

// close stops admitting runs and returns the active runs.
func (s *Roster) close() []*active {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.closing = true
		close(s.stopping)
	}
	return s.allLocked()
}

func (s *Roster) all() []*active {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allLocked()
}

func (s *Roster) allLocked() []*active {
	list := make([]*active, 0, len(s.runs))
	for _, r := range s.runs {
		list = append(list, r)
	}
	return list
}

// Active returns the number of active runs.
func (s *Roster) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// enter registers a run.
func (s *Roster) enter(r *active) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := r.caller.Principal
	switch {
	case s.closing:
		return reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	case s.perPrincipal[p] >= s.limit:
		return reason.Errorf(reason.RateLimited, "starting a run: %s has %s active", p, text.Plural(s.perPrincipal[p], "run")).
			WithRemedy("Wait until one has ended, or cancel one with `palyra runs cancel`.")
	}
	s.perPrincipal[p]++
	s.runs[r.record.ID] = r
	s.driving.Add(1)
	return nil
}

// leave unregisters a run.
func (s *Roster) leave(r *active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := r.caller.Principal
	if s.perPrincipal[p]--; s.perPrincipal[p] == 0 {
		delete(s.perPrincipal, p)
	}
	delete(s.runs, r.record.ID)
}

// find returns an active run, or nil.
func (s *Roster) find(id string) *active {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

// active is a run that has not ended.
type active struct {
	caller access.Caller
	// session is the client's name of the session.
	session  string
	provider model.Provider
	mailbox  *mailbox
	tape     *tape
	// halt ends the model's work; stop ends all work of the run.
	halt, stop context.CancelCauseFunc
	// ended is closed when the end is durable.
	ended chan struct{}

	mu     sync.Mutex
	record Record
}

// snapshot returns the record with the usage so far.
func (r *active) snapshot() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// use adds the usage of a turn or call.
func (r *active) use(change func(*Usage)) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.record.Usage)
	return r.record.Usage
}
