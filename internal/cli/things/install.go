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

// partSize is how much of a package one request brings, in bytes: what
// StageSkillRequest.data has room for.
const partSize = 1 << 20

// installFlags are those of `palyra skills install`.
type installFlags struct {
	sure bool
	// key is what the publisher says their key's id is.
	key string
}

func (a *skillCommands) install() *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use: "install FILE", Short: "Install a package, or update a skill by it", Args: command.Args(1, 1),
		Long: "Install a package, or update a skill by it. The gateway reads and verifies it, and says\n" +
			"who signed it, what its tools ask for and what an audit found; then you are asked. Where\n" +
			"two people change the gateway, a second one is asked, too, unless it is an update that\n" +
			"asks for nothing more.\n\n" +
			"The key of a publisher who is new here is pinned by it, and another key is refused from\n" +
			"then on. So compare its id with what the publisher tells you over another way: --key-id\n" +
			"does, and --yes takes it for a publisher who is new.",
		Example: "palyra skills install notebook-1.2.0.palyra-skill\n" +
			"palyra skills install notebook-1.2.0.palyra-skill --yes --key-id SHA256:...",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			data, err := command.ReadAtMost(given[0], skill.MaxPackage)
			if err != nil {
				return command.Usage("reading the package: %w", err).WithRemedy("Name a file that ends in %s; a package has at most %d bytes.", skill.Extension, skill.MaxPackage)
			}
			digest, err := stage(ctx, g, data)
			if err != nil {
				return err
			}
			seen, err := g.Skills.InspectSkill(ctx, &palyrav1.InspectSkillRequest{Digest: digest})
			if err != nil {
				return err
			}
			if err := a.agreed(ctx, seen, given[0], f); err != nil {
				return err
			}
			reply, err := g.Skills.InstallSkill(ctx, &palyrav1.InstallSkillRequest{Digest: digest})
			if err != nil {
				return err
			}
			return a.printSkill(reply.GetSkill())
		}),
	}
	c.Flags().BoolVar(&f.sure, "yes", false, "do not ask")
	c.Flags().StringVar(&f.key, "key-id", "", "the id of the publisher's key, as the publisher tells it; another one is refused")
	return c
}

// stage brings a package to the gateway, part by part, and returns its digest.
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
			return "", reason.Errorf(reason.Internal, "the gateway says that it has %d bytes of the package after byte %d of %d was sent", reply.GetReceived(), offset, size)
		}
		offset = reply.GetReceived()
	}
	return digest, nil
}

// agreed returns nil when the package is to be installed: it can be, its key is the one
// that was named, and whoever types says so.
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
		return command.Usage("the publisher %s is new here, and nobody compared their key %s", seen.GetManifest().GetPublisher(), seen.GetKeyId()).
			WithRemedy("Ask the publisher over another way for the id of their key, and repeat the command with --yes --key-id ID.")
	}
	if !f.sure && !a.Interactive() {
		nobody := command.Usage("nobody is there to be asked")
		if stranger {
			return nobody.WithRemedy("Look at it above, compare the key, and repeat the command: `palyra skills install %s --yes --key-id %s`.", file, seen.GetKeyId())
		}
		return nobody.WithRemedy("Look at it above, and repeat the command: `palyra skills install %s --yes`.", file)
	}
	question := "Install this?"
	if stranger {
		question = "Is that the key of " + printer.VisibleLine(seen.GetManifest().GetPublisher()) + ", and is this to be installed?"
	}
	return a.Agree(ctx, f.sure, question)
}

// otherKey refuses a package that is signed by another key than the one that was named.
func otherKey(is, wanted string) error {
	return reason.Errorf(reason.VerificationFailed, "the package is signed by %s, and not by %s", is, wanted).
		WithRemedy("Ask the publisher over another way which key is theirs, and do not install it before.")
}

// inspectionPage is what somebody reads before they say yes.
func inspectionPage(p *printer.Page, seen *palyrav1.InspectSkillResponse) {
	m := seen.GetManifest()
	p.Field("skill", m.GetId()+" "+m.GetVersion())
	p.Field("name", m.GetName())
	p.Wrapped("description", m.GetDescription())
	p.Field("digest", seen.GetDigest())
	publisher := m.GetPublisher()
	if seen.GetNewPublisher() {
		publisher += ", who is new here: this key is pinned"
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
			p.Field("asks for more", "nothing")
		}
	}
	toolsPage(p, m)
	findingsPage(p, seen.GetFindings())
}
