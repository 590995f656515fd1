package pairing

import (
	"context"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// question is a request for approval that Run makes. stands receives nil once people can answer
// the request, or the error that prevents it.
type question struct {
	code   Code
	stands chan error
}

// ask records that the candidate proved the secret, and requests the approval. It returns when
// people can answer the request. After any failure, the code cannot be used again.
func (h *Host) ask(ctx context.Context, c Code) error {
	err := h.cfg.Journal.Record(ctx, event.PairingProved, identity.Daemon().String(), c.ID, proved{
		DeviceID: c.For.DeviceID, KeySHA256: c.KeySHA256, Address: c.Address, Name: c.For.Name, Guesses: c.Guesses,
	})
	if err != nil {
		h.settle(c.ID, nil, err)
		return err
	}
	q := question{code: c, stands: make(chan error, 1)}
	select {
	case h.asking <- q:
	case <-ctx.Done():
		err := reason.Errorf(reason.Cancelled, "the candidate went away")
		h.settle(c.ID, nil, err)
		return err
	}
	select {
	case err := <-q.stands:
		return err
	case <-ctx.Done(): // the request for approval stays
		return ctx.Err()
	}
}

// wait requests one approval and stores the answer. The request is withdrawn when its code
// ends.
func (h *Host) wait(ctx context.Context, q question) {
	ctx, withdraw := context.WithCancel(ctx)
	defer withdraw()
	h.mu.Lock()
	if c := h.codes[q.code.ID]; c != nil {
		c.withdraw = withdraw
	} else {
		withdraw()
	}
	h.mu.Unlock()
	yes, err := h.cfg.Approvals.Ask(ctx, q.code, func(approvalID string) {
		h.mu.Lock()
		if c := h.codes[q.code.ID]; c != nil {
			c.ApprovalID, c.For.ApprovalID = approvalID, approvalID
		}
		h.mu.Unlock()
		q.stands <- nil
	})
	h.settle(q.code.ID, yes, err)
	if err != nil {
		select {
		case q.stands <- err:
		default: // it already received nil
		}
	}
}

// settle stores the answer of the approvers.
func (h *Host) settle(id string, yes Consent, no error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.codes[id]
	if c == nil || c.yes != nil || c.no != nil {
		return
	}
	c.yes, c.no = yes, no
	close(c.answered)
}
