package things

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// partSize is the size of a package part in one request, in bytes: the limit of
// StageSkillRequest.data.
const partSize = 1 << 20

// installFlags are the flags of `palyra skills install`.
type installFlags struct {
	sure bool
	// key is the key id that the publisher announced.
	key string
}

func (a *skillCommands) install() *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use: "install FILE", Short: "Install a package, or update a skill by it", Args: command.Args(1, 1),
		Long: "Install a package, or update a skill with it. The gateway verifies it, and shows its\n" +
			"signer, the permissions of its tools and the findings of an audit; then you confirm. If\n" +
			"changes of the gateway need two people, a second one must approve, unless an update\n" +
			"needs no more permissions.\n\n" +
			"The key of a new publisher is pinned by the installation, and another key is then\n" +
			"refused. Compare its id with the one that the publisher announces elsewhere: --key-id\n" +
			"does that, and --yes requires it for a new publisher.",
		Example: "palyra skills install notebook-1.2.0.palyra-skill\n" +
			"palyra skills install notebook-1.2.0.palyra-skill --yes --key-id SHA256:...",
		RunE: client.ShowOne(a.App, "Skill", skillRecord, a.installedPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Skill, error) {
			data, err := command.ReadAtMost(given[0], skill.MaxPackage)
			if err != nil {
				return nil, command.Usage("reading the package: %w", err).WithRemedy("Name a file that ends in %s; a package has at most %d bytes.", skill.Extension, skill.MaxPackage)
			}
			digest, err := stage(ctx, g, data)
			if err != nil {
				return nil, err
			}
			seen, err := g.Skills.InspectSkill(ctx, &palyrav1.InspectSkillRequest{Digest: digest})
			if err != nil {
				return nil, err
			}
			if err := a.agreed(ctx, seen, given[0], f); err != nil {
				return nil, err
			}
			reply, err := g.Skills.InstallSkill(ctx, &palyrav1.InstallSkillRequest{Digest: digest})
			return reply.GetSkill(), err
		}),
	}
	c.Flags().BoolVar(&f.sure, "yes", false, "do not ask")
	c.Flags().StringVar(&f.key, "key-id", "", "the id of the publisher's key, as announced by the publisher; another one is refused")
	return c
}

// stage uploads a package to the gateway, part by part, and returns its digest.
func stage(ctx context.Context, g *client.Gateway, data []byte) (string, error) {
	digest, size := canonical.Digest(data), int64(len(data))
	if size == 0 {
		return "", command.Usage("the file is empty").WithRemedy("Name a file that ends in %s.", skill.Extension)
	}
	for offset := int64(0); offset < size; {
		reply, err := g.Skills.StageSkill(ctx, &palyrav1.StageSkillRequest{Digest: digest, Size: size, Offset: offset, Data: data[offset:min(offset+partSize, size)]})
		if err != nil {
			return "", err
		}
		if reply.GetReceived() <= offset || reply.GetReceived() > size {
			return "", reason.Errorf(reason.Internal, "the gateway has %d bytes of the package after byte %d of %d was sent", reply.GetReceived(), offset, size)
		}
		offset = reply.GetReceived()
	}
	return digest, nil
}

// agreed returns nil if the package is to be installed: it is valid, its key matches the flag, and
// the user confirms.
func (a *skillCommands) agreed(ctx context.Context, seen *palyrav1.InspectSkillResponse, file string, f installFlags) error {
	if f.key != "" && seen.GetKeyId() != f.key && seen.GetKeyId() != "" {
		return otherKey(seen.GetKeyId(), f.key)
	}
	if !f.sure || seen.GetProblem() != "" {
		p := &printer.Page{Style: a.ErrStyle()}
		inspectionPage(p, seen)
		fmt.Fprint(a.Err, p.String())
	}
	if seen.GetProblem() != "" {
		return client.Failure(seen.GetProblemCode(), "the package cannot be installed: "+seen.GetProblem(), seen.GetRemedy())
	}
	stranger := seen.GetNewPublisher() && f.key == ""
	if f.sure && stranger {
		return command.Usage("the publisher %s is new, and the key %s was not compared", seen.GetManifest().GetPublisher(), seen.GetKeyId()).
			WithRemedy("Ask the publisher over another way for the id of their key, and repeat the command with --yes --key-id ID.")
	}
	if !f.sure && !a.Interactive() {
		nobody := command.Usage("confirming the installation requires a terminal")
		if stranger {
			return nobody.WithRemedy("Review the output above, compare the key, and repeat the command: `palyra skills install %s --yes --key-id %s`.", file, seen.GetKeyId())
		}
		return nobody.WithRemedy("Review the output above, and repeat the command: `palyra skills install %s --yes`.", file)
	}
	question := "Install this?"
	if stranger {
		question = "Is this the key of " + printer.VisibleLine(seen.GetManifest().GetPublisher()) + ", and should the package be installed?"
	}
	return a.Agree(ctx, f.sure, question)
}

// otherKey returns the error of a package that was not signed by the specified key.
func otherKey(is, wanted string) error {
	return reason.Errorf(reason.VerificationFailed, "the package is signed by %s, and not by %s", is, wanted).
		WithRemedy("Ask the publisher over another way which key is theirs, and do not install it before.")
}

// inspectionPage writes the data to review before the installation.
func inspectionPage(p *printer.Page, seen *palyrav1.InspectSkillResponse) {
	m := seen.GetManifest()
	p.Field("skill", m.GetId()+" "+m.GetVersion())
	p.Field("name", m.GetName())
	p.Wrapped("description", m.GetDescription())
	p.Field("digest", seen.GetDigest())
	publisher := m.GetPublisher()
	if seen.GetNewPublisher() {
		publisher += ", who is new: this key will be pinned"
	}
	p.Field("publisher", publisher)
	p.Field("signed by", seen.GetKeyId())
	p.Field("license", m.GetLicense())
	p.Field("homepage", m.GetHomepage())
	if was := seen.GetReplaces(); was != nil {
		p.Field("replaces", was.GetSkill()+" "+was.GetVersion())
		if gains := seen.GetGains(); len(gains) > 0 {
			p.List("asks for more", gains)
		} else {
			p.Field("more permissions", "nothing")
		}
	}
	toolsPage(p, m)
	findingsPage(p, seen.GetFindings())
}
