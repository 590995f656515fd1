package toolcall

import (
	"context"
	"slices"
	"sync"

	"palyra/internal/access"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// mostRuns bounds how many runs are remembered; one that was forgotten is
// counted again from the journal.
const mostRuns = 10_000

// tallies counts what each run did.
type tallies struct {
	ledger Ledger
	mu     sync.Mutex
	runs   map[runKey]*tally
	// underWay counts the calls of each principal that have not ended.
	underWay map[access.Principal]int
}

// mostUnderWay bounds the calls of one principal that have not ended, whatever
// they wait for.
const mostUnderWay = 256

// runKey keeps the runs of different principals apart, whatever they call
// them.
type runKey struct {
	principal access.Principal
	run       string
}

type tally struct {
	facts tool.SessionFacts
	// alone is true for a run of one call, which needs no memory.
	alone bool
}

// counted is a call that is counted in its run.
type counted struct {
	owner *tallies
	key   runKey
	// facts are as of the beginning of the call, which they include.
	facts tool.SessionFacts
}

func newTallies(l Ledger) *tallies {
	return &tallies{ledger: l, runs: make(map[runKey]*tally), underWay: make(map[access.Principal]int)}
}

// begin counts a proposal in.
func (t *tallies) begin(ctx context.Context, p tool.Proposal) (*counted, error) {
	key := runKey{p.Caller.Principal, p.Run}
	alone := p.Run == p.ID
	for {
		if err := t.load(ctx, key, alone); err != nil {
			return nil, err
		}
		if c, err := t.count(key, alone); c != nil || err != nil {
			return c, err
		}
	}
}

// count counts one call in its run; nil without an error means that the run was
// forgotten since it was loaded.
func (t *tallies) count(key runKey, alone bool) (*counted, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay[key.principal] >= mostUnderWay {
		return nil, reason.Errorf(reason.RateLimited, "%s has %d calls under way", key.principal, mostUnderWay).
			WithRemedy("Wait until some have ended, or cancel what waits for approval.")
	}
	run := t.runs[key]
	if run == nil {
		if !alone {
			return nil, nil
		}
		run = &tally{alone: true}
		t.runs[key] = run
	}
	t.underWay[key.principal]++
	run.facts.CallsInRun++
	run.facts.InFlight++
	facts := run.facts
	facts.ToolsUsed = slices.Clone(facts.ToolsUsed)
	facts.SecretsRead = slices.Clone(facts.SecretsRead)
	return &counted{owner: t, key: key, facts: facts}, nil
}

// running counts the calls of all principals that have not ended.
func (t *tallies) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, calls := range t.underWay {
		n += calls
	}
	return n
}

// load counts an unknown run from the journal.
func (t *tallies) load(ctx context.Context, key runKey, alone bool) error {
	t.mu.Lock()
	_, known := t.runs[key]
	t.mu.Unlock()
	if known || alone {
		return nil
	}
	// A caller that leaves is counted, too.
	facts, err := t.ledger.RunFacts(context.WithoutCancel(ctx), key.principal, key.run)
	if err != nil {
		return reason.Errorf(reason.JournalUnavailable, "counting the calls of the run: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.runs[key]; known {
		return nil
	}
	t.makeRoom()
	t.runs[key] = &tally{facts: facts}
	return nil
}

// makeRoom forgets an idle run when there are too many.
func (t *tallies) makeRoom() {
	if len(t.runs) < mostRuns {
		return
	}
	for key, run := range t.runs {
		if run.facts.InFlight == 0 {
			delete(t.runs, key)
			return
		}
	}
}

// traffic is what a call exchanged with the world outside.
type traffic struct {
	bytesOut int64
	// read is true when something came in.
	read bool
	// secrets are the names of those that it may have used.
	secrets []string
}

// end counts the call out and remembers which tool it proposed to use, nil when
// its input was refused, and what it exchanged with the world outside.
func (c *counted) end(used *tool.Descriptor, with traffic) {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	if c.owner.underWay[c.key.principal]--; c.owner.underWay[c.key.principal] == 0 {
		delete(c.owner.underWay, c.key.principal)
	}
	run := c.owner.runs[c.key]
	run.facts.InFlight--
	run.facts.BytesOut += with.bytesOut
	run.facts.Tainted = run.facts.Tainted || with.read
	for _, name := range with.secrets {
		run.facts.SecretsRead = withName(run.facts.SecretsRead, name)
	}
	if used != nil {
		run.facts.Tainted = run.facts.Tainted || used.OpenWorld
		run.facts.ToolsUsed = withName(run.facts.ToolsUsed, used.Name)
	}
	if run.alone && run.facts.InFlight == 0 {
		delete(c.owner.runs, c.key)
	}
}

// withName adds a name to a sorted list without repeats.
func withName(list []string, name string) []string {
	i, known := slices.BinarySearch(list, name)
	if known {
		return list
	}
	return slices.Insert(list, i, name)
}
