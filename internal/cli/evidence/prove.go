package evidence

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

func (a *verifyCommands) journalProve() *cobra.Command {
	return &cobra.Command{Use: "prove SEQ", Short: "Prove that an event is in the signed journal", Args: command.Args(1, 1),
		Long: "Prove that an event is in the signed journal. The proof is verified here: the\n" +
			"event's own hash, its path to the root of a signed checkpoint, and that the\n" +
			"checkpoint extends the last one that this command received, so that\n" +
			"a rollback or a fork is detected. Exits 8 if verification fails.",
		RunE: func(cmd *cobra.Command, given []string) error {
			seq, err := parseSeq(given[0])
			if err != nil {
				return err
			}
			return a.prove(cmd.Context(), seq)
		}}
}

// proven is a verified proof.
type proven struct {
	reply   *palyrav1.ProveEventResponse
	event   journal.Event
	now     journal.Checkpoint
	before  journal.Checkpoint
	hadSeen bool
	// keys are the keys in the gateway's key set; an older gateway returns none.
	keys []journal.SigningKey
}

// Prove proves an event as `palyra journal prove` does.
func Prove(program *client.App) func(ctx context.Context, g *client.Gateway, seq int64) (witness.Inclusion, error) {
	a := &verifyCommands{program}
	return func(ctx context.Context, g *client.Gateway, seq int64) (witness.Inclusion, error) {
		p, err := a.proveAndRemember(ctx, g, seq)
		if err != nil {
			return witness.Inclusion{}, err
		}
		return witness.Inclusion{
			Seq: seq, Code: string(p.event.Code), Hash: hex.EncodeToString(p.event.Hash[:]), Gateway: p.now.Origin,
			Size: p.now.Size, Root: hex.EncodeToString(p.now.Root[:]), Key: p.reply.GetVerifierKey(), Event: p.event,
		}, nil
	}
}

// proveAndRemember proves an event and stores the newest checkpoint.
func (a *verifyCommands) proveAndRemember(ctx context.Context, g *client.Gateway, seq int64) (proven, error) {
	p, err := a.proveAt(ctx, g, seq)
	if err != nil {
		return p, err
	}
	newest := p.now
	if p.hadSeen && p.before.Size > newest.Size {
		newest = p.before
	}
	err = witness.Remember(a.App, witness.Memory{Gateway: p.now.Origin, VerifierKey: p.reply.GetVerifierKey(), Keys: p.keys, CARoot: witness.Fingerprint(g.Root), Note: newest.Note})
	if err != nil {
		return p, fmt.Errorf("storing the checkpoint: %w", err)
	}
	return p, nil
}

func (a *verifyCommands) prove(ctx context.Context, seq int64) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	p, err := a.proveAndRemember(ctx, g, seq)
	if err != nil {
		return err
	}
	body := append(printer.ProtoObject(p.reply), printer.Member{"verified", true}, printer.Member{"tree_size", p.now.Size}, printer.Member{"earlier_tree_size", p.before.Size})
	return a.PrintOne("JournalProof", printer.Record{Name: fmt.Sprint(seq), Body: body}, func(pg *printer.Page) {
		pg.Field("verified", fmt.Sprintf("event %d (%s) is in the journal of gateway %s", seq, p.event.Code, p.now.Origin))
		pg.Field("checkpoint", fmt.Sprintf("over %d events, root %s", p.now.Size, hex.EncodeToString(p.now.Root[:])))
		if p.hadSeen {
			pg.Field("extends", fmt.Sprintf("the known checkpoint over %d events", p.before.Size))
		} else {
			pg.Field("first use", "no checkpoint of this gateway was known; this one was stored")
		}
		pg.Field("key", p.reply.GetVerifierKey())
	})
}

// proveAt requests the proof and verifies it, first by itself and then against the stored
// checkpoint.
func (a *verifyCommands) proveAt(ctx context.Context, g *client.Gateway, seq int64) (proven, error) {
	reply, err := g.Journal.ProveEvent(ctx, &palyrav1.ProveEventRequest{Seq: seq})
	if err != nil {
		return proven{}, err
	}
	p, err := verifyProof(reply, seq)
	if err != nil {
		return p, err
	}
	m, err := witness.Recall(a.App, witness.Fingerprint(g.Root))
	if err != nil {
		return p, err
	}
	if p.keys, err = witness.ProvenKeys(ctx, a.App, g, m, p.now, reply.GetVerifierKey()); err != nil {
		return p, err
	}
	before, seen, err := m.Checkpoint()
	if err != nil || !seen {
		return p, err
	}
	if p, err = a.proveAgainst(ctx, g, seq, p.now, before); err != nil {
		return p, err
	}
	p.keys, err = witness.ProvenKeys(ctx, a.App, g, m, p.now, p.reply.GetVerifierKey())
	return p, err
}

// proveAgainst requests the proof again, with a proof that its checkpoint extends an earlier one.
// If the gateway's newest checkpoint is older, it signs a new one first.
func (a *verifyCommands) proveAgainst(ctx context.Context, g *client.Gateway, seq int64, now, before journal.Checkpoint) (proven, error) {
	if now.Size < before.Size {
		fresh, err := g.Journal.GetCheckpoint(ctx, &palyrav1.GetCheckpointRequest{Fresh: true})
		if err != nil {
			return proven{}, err
		}
		if fresh.GetTreeSize() < before.Size {
			return proven{}, witness.RolledBack(before, fresh.GetTreeSize())
		}
	}
	reply, err := g.Journal.ProveEvent(ctx, &palyrav1.ProveEventRequest{Seq: seq, OldTreeSize: before.Size})
	if err != nil {
		return proven{}, err
	}
	p, err := verifyProof(reply, seq)
	if err != nil {
		return p, err
	}
	p.before, p.hadSeen = before, true
	hashes, err := witness.ParseHashes(reply.GetConsistency())
	if err != nil {
		return p, err
	}
	if err := journal.VerifyConsistency(before, p.now, hashes); err != nil {
		return p, witness.Forked(err)
	}
	return p, nil
}

// verifyProof verifies the signature, the event's own digests and its path to the root, with the
// key in the reply.
func verifyProof(reply *palyrav1.ProveEventResponse, seq int64) (proven, error) {
	p := proven{reply: reply}
	bad := func(err error) (proven, error) {
		return p, reason.Errorf(reason.VerificationFailed, "verifying the proof of event %d: %w", seq, err)
	}
	known, err := journal.ParseKeys(reply.GetVerifierKey())
	if err != nil {
		return bad(err)
	}
	if p.event, err = eventOf(reply.GetEvent()); err != nil {
		return bad(err)
	}
	if p.event.Seq != seq {
		return bad(fmt.Errorf("it is for event %d", p.event.Seq))
	}
	if p.now, err = journal.ParseCheckpoint(reply.GetCheckpoint(), "", known); err != nil {
		return bad(err)
	}
	hashes, err := witness.ParseHashes(reply.GetInclusion())
	if err != nil {
		return bad(err)
	}
	if err := checkProof(p, hashes, known); err != nil {
		return bad(err)
	}
	return p, nil
}

func checkProof(p proven, hashes []tlog.Hash, known note.Verifiers) error {
	return journal.VerifyProof(journal.Proof{Event: p.event, Checkpoint: p.now, Hashes: hashes}, "", known)
}

func eventOf(e *palyrav1.Event) (journal.Event, error) {
	out := journal.Event{
		Seq: e.GetSeq(), ID: e.GetEventId(), At: journal.Instant(e.GetAt().AsTime()), Session: e.GetSession(),
		Run: e.GetRun(), Actor: e.GetActor(), Subject: e.GetSubject(), Code: event.Code(e.GetCode()),
	}
	if len(e.GetPayloadJson()) > 0 || len(e.GetSalt()) > 0 {
		out.Payload, out.Salt = e.GetPayloadJson(), e.GetSalt()
	}
	for _, h := range []struct {
		text string
		into *[32]byte
	}{{e.GetPayloadSha256(), &out.PayloadSHA256}, {e.GetPrevHash(), &out.PrevHash}, {e.GetHash(), &out.Hash}} {
		parsed, err := witness.ParseHash(h.text)
		if err != nil {
			return out, err
		}
		*h.into = parsed
	}
	return out, nil
}
