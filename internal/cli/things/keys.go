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
		Use: "keygen FILE", Short: "Create a publisher's signing key", Args: command.Args(1, 1),
		Long: "Create a publisher's signing key, and write it to a private file of its owner\n" +
			"(mode 0600). Announce its id to your users through another channel than the\n" +
			"packages. A lost key cannot be replaced: gateways that trust it refuse\n" +
			"your next version until their operators trust another.",
		Example: "palyra skills keygen publisher.key",
		RunE: func(_ *cobra.Command, given []string) error {
			if _, err := os.Lstat(given[0]); err == nil {
				return reason.Errorf(reason.AlreadyExists, "%s already exists", given[0]).WithRemedy("Specify another file: a key is not overwritten.")
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
		Long: "Sign a package: all its entries, its id, version and publisher. An existing signature\n" +
			"is replaced. The package file is overwritten unless --out names another file.",
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

// signedBy signs a package with the key in a file, and parses the result.
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
			known = known.WithRemedy("Specify the file that `palyra skills keygen` wrote; it must be private (chmod 600).")
		}
		return nil, known
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != keyfile.KeyBlock || len(rest) > 0 {
		return nil, command.Usage("%s does not contain a private key", file).WithRemedy("Create one with `palyra skills keygen`.")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, command.Usage("%s contains an invalid private key", file).WithRemedy("Create one with `palyra skills keygen`.")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, command.Usage("the key in %s is not an Ed25519 key", file).WithRemedy("Create one with `palyra skills keygen`.")
	}
	return key, nil
}

// publicText returns the base64 of a public key, as in signatures; "" for nil.
func publicText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
