package evidence

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record/verify"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

func (a *verifyCommands) journalAcceptRestore() *cobra.Command {
	var sure bool
	c := &cobra.Command{Use: "accept-restore", Short: "Accept that the gateway was restored from a backup", Args: command.Args(0, 0),
		Long: "Accept that the gateway was restored from a backup, although this command has\n" +
			"seen a newer journal. It shows both heads and the restore event (PAL-J105)\n" +
			"with its proof: the event is covered by a signed checkpoint of this gateway,\n" +
			"which extends the head of the backup. Without the event nothing is accepted.\n\n" +
			"The gateway has lost all events between the backup and the newest head, including\n" +
			"revocations.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.acceptRestore(cmd.Context(), sure) }}
	c.Flags().BoolVar(&sure, "yes", false, "do not ask to confirm")
	return c
}

// restore is a proven restore event, with the checkpoint that covers it.
type restore struct {
	journal.Restored
	event journal.Event
	now   journal.Checkpoint
	keys  []journal.SigningKey
}

func (a *verifyCommands) acceptRestore(ctx context.Context, sure bool) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	m, err := witness.Recall(a.App, witness.Fingerprint(g.Root))
	if err != nil {
		return err
	}
	before, seen, err := m.Checkpoint()
	if err != nil {
		return err
	}
	_, doubt, err := witness.Status(ctx, a.App, g)
	if err != nil {
		return err
	}
	if !seen {
		return reason.Errorf(reason.NotFound, "no earlier journal of this gateway is known, so none can be accepted").
			WithRemedy("Use the gateway as it is: `palyra status`.")
	}
	if doubt == nil {
		a.Say("the journal extends the one seen before; there is nothing to accept")
		return nil
	}
	r, err := a.provenRestore(ctx, g, before)
	if err != nil {
		return err
	}
	if err := a.printRestore(before, r); err != nil {
		return err
	}
	if err := a.Confirm(ctx, sure, "Give up the journal that was seen before?"); err != nil {
		return err
	}
	err = witness.Remember(a.App, witness.Memory{
		CARoot: witness.Fingerprint(g.Root), Gateway: r.now.Origin, VerifierKey: r.keys[0].Verifier, Keys: r.keys, Note: r.now.Note,
	})
	if err != nil {
		return fmt.Errorf("storing the checkpoint: %w", err)
	}
	a.Say("accepted: the journal must now extend %d events", r.now.Size)
	return nil
}

// provenRestore finds the restore that explains why a journal does not extend a known head. It
// is the newest restore from a backup that ends before that head.
func (a *verifyCommands) provenRestore(ctx context.Context, g *client.Gateway, before journal.Checkpoint) (restore, error) {
	set, err := witness.KeySet(ctx, g)
	if err != nil {
		return restore{}, err
	}
	if _, err := attest.NewVerifier(set); err != nil {
		return restore{}, err
	}
	keys := verify.Signers(set)
	if len(keys) == 0 {
		return restore{}, reason.Errorf(reason.OriginUnproven, "the gateway's key set has no keys of the journal")
	}
	events, err := restores(ctx, g)
	if err != nil {
		return restore{}, err
	}
	for _, e := range slices.Backward(events) {
		said, err := eventOf(e)
		if err != nil {
			return restore{}, err
		}
		r, err := journal.ParseRestored(&said)
		if err != nil {
			return restore{}, err
		}
		if r.Backup.Size < before.Size {
			return proveRestore(ctx, g, restore{Restored: r, event: said, keys: keys})
		}
	}
	return restore{}, reason.Errorf(reason.VerificationFailed, "the journal has no event of a restore from a backup with fewer than %d events", before.Size).
		WithRemedy("Change nothing, and ask the operator: two copies of the gateway may be running, or an older state was restored.")
}

// restores returns all restore events, oldest first.
func restores(ctx context.Context, g *client.Gateway) (all []*palyrav1.Event, err error) {
	req := &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: string(event.Restored)}}
	for {
		reply, err := g.Journal.ListEvents(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, reply.GetEvents()...)
		if req.After = reply.GetNextAfter(); req.After == 0 {
			return all, nil
		}
	}
}

// proveRestore proves that a checkpoint of the gateway covers the event, and that this
// checkpoint extends the head of the backup in the event.
func proveRestore(ctx context.Context, g *client.Gateway, r restore) (restore, error) {
	reply, err := g.Journal.ProveEvent(ctx, &palyrav1.ProveEventRequest{Seq: r.event.Seq, OldTreeSize: r.Backup.Size})
	if err != nil {
		return r, err
	}
	bad := func(err error) (restore, error) {
		return r, reason.Errorf(reason.VerificationFailed, "the restore in event %d does not verify: %w", r.event.Seq, err)
	}
	known, err := journal.NewSigners(r.keys...)
	if err != nil {
		return bad(err)
	}
	p, err := verifyProof(reply, r.event.Seq)
	if err != nil {
		return r, err
	}
	if p.event.Hash != r.event.Hash {
		return bad(fmt.Errorf("the proof is for another event"))
	}
	if r.now, err = journal.ParseCheckpoint(p.now.Note, p.now.Origin, known); err != nil {
		return bad(err)
	}
	backup, err := journal.ParseCheckpoint(r.Backup.Checkpoint, r.now.Origin, known)
	if err != nil {
		return bad(err)
	}
	if backup.Size != r.Backup.Size || hex.EncodeToString(backup.Root[:]) != r.Backup.Root {
		return bad(fmt.Errorf("its head does not match its checkpoint"))
	}
	hashes, err := witness.ParseHashes(reply.GetConsistency())
	if err != nil {
		return r, err
	}
	if err := journal.VerifyConsistency(backup, r.now, hashes); err != nil {
		return bad(err)
	}
	return r, nil
}

func (a *verifyCommands) printRestore(before journal.Checkpoint, r restore) error {
	body := printer.Object{
		{"gateway", r.now.Origin}, {"seen", head(before)}, {"backup", printer.Object{{"size", r.Backup.Size}, {"root", r.Backup.Root}}}, {"now", head(r.now)},
		{"event", r.event.Seq}, {"made_at", r.MadeAt}, {"restored_at", r.RestoredAt}, {"lost", before.Size - r.Backup.Size},
	}
	return a.PrintOne("Restore", printer.Record{Name: r.now.Origin, Body: body}, func(p *printer.Page) {
		p.Field("gateway", r.now.Origin)
		p.Field("seen before", fmt.Sprintf("%s, root %s", text.Plural(before.Size, "event"), hex.EncodeToString(before.Root[:])))
		p.Field("backup", fmt.Sprintf("%s, root %s", text.Plural(r.Backup.Size, "event"), r.Backup.Root))
		p.Field("now", fmt.Sprintf("%s, root %s", text.Plural(r.now.Size, "event"), hex.EncodeToString(r.now.Root[:])))
		p.Field("restored", fmt.Sprintf("from a backup of %s, at %s (event %d)", r.MadeAt.Format(time.RFC3339), r.event.At.Format(time.RFC3339), r.event.Seq))
		p.Field("lost", fmt.Sprintf("the events %d to %d that were seen, and later ones", r.Backup.Size+1, before.Size))
		if n := r.Newest; n != nil && n.Size != before.Size {
			p.Field("newest known", fmt.Sprintf("%s, root %s, as stated by the operator", text.Plural(n.Size, "event"), n.Root))
		}
	})
}

func head(cp journal.Checkpoint) printer.Object {
	return printer.Object{{"size", cp.Size}, {"root", hex.EncodeToString(cp.Root[:])}}
}
