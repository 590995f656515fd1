package things

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
)

func (a *skillCommands) keygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make the key that a publisher signs with", Args: command.Args(1, 1),
		Long: "Make the key that a publisher signs with, and write it to a file for its owner alone\n" +
			"(mode 0600). Tell those who install your skills its id over another way than the\n" +
			"packages take. A key that is lost cannot be had again: gateways that trust it refuse\n" +
			"your next version until their operators trust another.",
		Example: "palyra skills keygen publisher.key",
		RunE: func(_ *cobra.Command, given []string) error {
			if _, err := os.Lstat(given[0]); err == nil {
				return reason.Errorf(reason.AlreadyExists, "%s is there already", given[0]).WithRemedy("Name another file: a key is not written over.")
			}
			public, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return fmt.Errorf("making a key: %w", err)
			}
			text, err := keyfile.KeyText(key)
			if err != nil {
				return err
			}
			if err := keyfile.Write(given[0], text); err != nil {
				return command.Usage("%w", err)
			}
			id := dsse.KeyID(public)
			body := printer.Object{{Name: "file", Value: given[0]}, {Name: "key_id", Value: id}, {Name: "public_key", Value: publicText(public)}}
			return a.PrintOne("PublisherKey", printer.Record{Name: id, Body: body}, func(p *printer.Page) {
				p.Field("key", given[0])
				p.Field("id", id)
				p.Field("public key", publicText(public))
			})
		},
	}
}

func (a *skillCommands) sign() *cobra.Command {
	var key, out string
	c := &cobra.Command{
		Use: "sign FILE --key FILE", Short: "Sign a package", Args: command.Args(1, 1),
		Long: "Sign a package: every entry of it, and its id, version and publisher. A signature that\n" +
			"it has is replaced. The file itself is replaced unless --out names another.",
		Example: "palyra skills sign counter-0.1.0.palyra-skill --key publisher.key",
		RunE: func(_ *cobra.Command, given []string) error {
			p, err := opened(given[0])
			if err != nil {
				return err
			}
			data, p, signer, err := signedBy(p, key)
			if err != nil {
				return err
			}
			if out == "" {
				out = given[0]
			}
			if err := replace(out, data); err != nil {
				return err
			}
			body := append(about(p, signer), printer.Member{Name: "file", Value: out})
			return a.PrintOne("SkillPackage", printer.Record{Name: out, Body: body}, func(page *printer.Page) {
				page.Field("package", out)
				show(page, p, signer)
			})
		},
	}
	c.Flags().StringVar(&key, "key", "", "file of the publisher's key")
	c.Flags().StringVar(&out, "out", "", "file to write; the package itself by default")
	_ = c.MarkFlagRequired("key")
	return c
}

// signedBy signs a package with the key in a file, and reads what came of it.
func signedBy(p *skill.Package, file string) ([]byte, *skill.Package, skill.Signer, error) {
	key, err := readKey(file)
	if err != nil {
		return nil, nil, skill.Signer{}, err
	}
	data, err := skill.Sign(p, key)
	if err != nil {
		return nil, nil, skill.Signer{}, err
	}
	again, err := skill.Open(data)
	if err != nil {
		return nil, nil, skill.Signer{}, err
	}
	signer, err := skill.Verify(again)
	return data, again, signer, err
}

// readKey reads a publisher's key. A file that others may read is refused.
func readKey(file string) (ed25519.PrivateKey, error) {
	text, err := keyfile.Read(file)
	if err != nil {
		known := reason.Known(err, reason.InvalidInput)
		if known.Remedy == "" {
			known = known.WithRemedy("Name the file that `palyra skills keygen` wrote; it is for its owner alone (chmod 600).")
		}
		return nil, known
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyfile.KeyBlock || len(rest) > 0 {
		return nil, command.Usage("%s holds no private key", file).WithRemedy("Make one with `palyra skills keygen`.")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, command.Usage("%s holds a private key that cannot be read", file).WithRemedy("Make one with `palyra skills keygen`.")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, command.Usage("%s holds a key of another kind than Ed25519", file).WithRemedy("Make one with `palyra skills keygen`.")
	}
	return key, nil
}

// publicText is a public key as signatures have it, "" for none.
func publicText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
