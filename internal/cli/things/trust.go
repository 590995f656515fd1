package things

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

var publishers = printer.Listing{
	Kind:    "SkillPublisher",
	Columns: []string{"PUBLISHER", "KEY", "HOW", "ADDED"},
	Wide:    []string{"BY", "PUBLIC KEY"},
	Drop:    []string{"ADDED", "HOW"},
	Empty:   "no publishers; the first package of one pins their key, or `palyra skills trust add` does",
}

func (a *skillCommands) trust() *cobra.Command {
	return command.NewGroup("trust", "Manage the trusted publishers of skills", a.Waits(a.trustAdd()), a.trustList(), a.trustRemove())
}

func publisher(p *palyrav1.SkillPublisher) printer.Record {
	return printer.Record{
		Name: p.GetName(), Body: printer.ProtoObject(p),
		Cells: []string{p.GetName(), p.GetKeyId(), how(p), printer.Clock(p.GetAddedAt())},
		Wide:  []string{p.GetAddedBy(), publicText(p.GetPublicKey())},
	}
}

// how describes how a key became trusted.
func how(p *palyrav1.SkillPublisher) string {
	if p.GetFirstUse() {
		return "first use"
	}
	return "named"
}

func (a *skillCommands) trustAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add NAME PUBLIC-KEY", Short: "Trust the key of a publisher before there is a package of theirs", Args: command.Args(2, 2),
		Long: "Trust the key of a publisher before its first package. The key is the one that `palyra\n" +
			"skills keygen` and `verify` call the public key: 32 bytes in base64. A publisher who has\n" +
			"another key must be removed first, which quarantines its skills. If changes of the\n" +
			"gateway need two people, a second one must approve.",
		Example: "palyra skills trust add example.org 3Wq0Vv0m4bJ5iG5yqk5fJ3o2p1n0QmJ8l7k6h5g4f3c=",
		RunE: client.ShowOne(a.App, "SkillPublisher", publisher, func(page *printer.Page, p *palyrav1.SkillPublisher) {
			page.Field("publisher", p.GetName())
			page.Field("key", p.GetKeyId())
			page.Field("trusted", how(p))
			page.Field("added", a.Moment(p.GetAddedAt())+" by "+p.GetAddedBy())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.SkillPublisher, error) {
			key, err := base64.StdEncoding.Strict().DecodeString(given[1])
			if err != nil || len(key) != ed25519.PublicKeySize {
				return nil, command.Usage("%.80q is not a valid public key", given[1]).
					WithRemedy("Copy it completely: `palyra skills keygen` and `palyra skills verify FILE` print it, 32 bytes in base64.")
			}
			reply, err := g.Skills.TrustPublisher(ctx, &palyrav1.TrustPublisherRequest{Name: given[0], PublicKey: key})
			return reply.GetPublisher(), err
		}),
	}
}

func (a *skillCommands) trustList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the trusted publishers", Args: command.Args(0, 0), Example: "palyra skills trust list",
		RunE: client.ShowList(a.App, publishers, publisher, publishersOf),
	}
}

func publishersOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.SkillPublisher, error) {
	reply, err := g.Skills.ListPublishers(ctx, &palyrav1.ListPublishersRequest{})
	return reply.GetPublishers(), err
}

func (a *skillCommands) trustRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "End the trust in a publisher, and quarantine their skills", Args: command.Args(1, 1),
		Long: "End the trust in a publisher. All their skills are quarantined at once, also for calls that\n" +
			"wait for approval. It needs no second person. `trust add` and `enable` revert it.",
		Example:           "palyra skills trust remove example.org",
		ValidArgsFunction: client.Suggest(a.App, publishersOf, func(p *palyrav1.SkillPublisher) (string, string) { return p.GetName(), p.GetKeyId() }),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Skills.DistrustPublisher(ctx, &palyrav1.DistrustPublisherRequest{Name: given[0]})
			if err != nil {
				return err
			}
			a.Say("%s is no longer trusted; %s quarantined", given[0], text.Plural(len(reply.GetSkills()), "version"))
			return nil
		}),
	}
}
