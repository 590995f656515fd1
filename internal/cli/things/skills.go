package things

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/version"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/workshop"
	"palyra/internal/exec/wasm/module"
)

// skillCommands is one run of the program, with the commands of this family.
type skillCommands struct{ *client.App }

// SkillsCommand is `palyra skills`.
func SkillsCommand(program *client.App) *cobra.Command {
	a := &skillCommands{program}
	return command.NewGroup("skills", "Create and install skills, packages of WebAssembly tools",
		a.begin(), a.build(), a.keygen(), a.sign(), a.verify(), a.audit(),
		a.Waits(a.install()), a.list(), a.show(), a.quarantine(), a.disable(), a.Waits(a.enable()), a.remove(), a.trust())
}

func (a *skillCommands) begin() *cobra.Command {
	var name, publisher string
	c := &cobra.Command{
		Use: "new DIR", Short: "Write a skill to start from", Args: command.Args(1, 1),
		Long: "Write a template of a skill into a new directory: a program in Go\n" +
			"with its test, a manifest, and examples of grants. It builds and runs\n" +
			"unchanged, and needs only the Go toolchain.",
		Example: "palyra skills new counter\npalyra skills new work/counter --publisher example.org",
		RunE: func(_ *cobra.Command, given []string) error {
			if name == "" {
				name = filepath.Base(filepath.Clean(given[0]))
			}
			files, err := workshop.New(given[0], name, publisher)
			if err != nil {
				return err
			}
			body := printer.Object{{Name: "name", Value: name}, {Name: "dir", Value: given[0]}, {Name: "files", Value: files}}
			return a.PrintOne("Skill", printer.Record{Name: name, Body: body}, func(p *printer.Page) {
				p.Field("skill", name)
				p.List("files", files)
				p.Field("next", "palyra skills build "+given[0])
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "id of the skill; the directory's name by default")
	c.Flags().StringVar(&publisher, "publisher", "me", "the publisher")
	return c
}

// buildFlags are the flags of `palyra skills build`.
type buildFlags struct {
	out, key string
	sizes    bool
}

func (a *skillCommands) build() *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use: "build [DIR]", Short: "Build the modules of a skill and pack them", Args: command.Args(0, 1),
		Long: "Build the modules of a skill and pack them. For each module that skill.toml names it\n" +
			"takes modules/NAME.wasm, or builds the Go program in modules/NAME/. Names and debug\n" +
			"information are omitted. The same sources and Go toolchain give the same bytes.\n\n" +
			"The package is not signed unless --key names a key.",
		Example: "palyra skills build\npalyra skills build counter --key publisher.key\npalyra skills build counter --sizes",
		RunE: func(cmd *cobra.Command, given []string) error {
			dir := "."
			if len(given) > 0 {
				dir = given[0]
			}
			return a.buildSkill(cmd.Context(), dir, f)
		},
	}
	c.Flags().StringVar(&f.out, "out", "", "file to write; ID-VERSION"+skill.Extension+" by default")
	c.Flags().StringVar(&f.key, "key", "", "sign with the key in this file")
	c.Flags().BoolVar(&f.sizes, "sizes", false, "print the code size of each import")
	return c
}

func (a *skillCommands) buildSkill(ctx context.Context, dir string, f buildFlags) error {
	built, err := workshop.Build(ctx, dir, workshop.Options{Limits: module.DefaultLimits(), Sizes: f.sizes})
	if err != nil {
		return err
	}
	p, data := built.Package, built.File
	signer := skill.Signer{}
	if f.key != "" {
		if data, p, signer, err = signedBy(p, f.key); err != nil {
			return err
		}
	}
	if f.out == "" {
		f.out = fmt.Sprintf("%s-%s%s", p.Manifest.ID, p.Manifest.Version, skill.Extension)
	}
	if err := replace(f.out, data); err != nil {
		return err
	}
	body := append(about(p, signer), printer.Member{Name: "file", Value: f.out}, printer.Member{Name: "bytes", Value: len(data)}, printer.Member{Name: "modules", Value: modules(built.Made)})
	return a.PrintOne("SkillPackage", printer.Record{Name: f.out, Body: body}, func(page *printer.Page) {
		page.Field("package", fmt.Sprintf("%s (%d bytes)", f.out, len(data)))
		show(page, p, signer)
		for _, m := range built.Made {
			page.Field("module", fmt.Sprintf("%s (%d bytes, %d stripped)", m.Name, m.Bytes, m.Stripped))
			for _, s := range m.Sizes {
				page.Field("", fmt.Sprintf("%7d KiB by %s alone", s.Bytes>>10, s.Path))
			}
		}
		if f.key == "" {
			page.Field("next", "palyra skills sign "+f.out+" --key FILE")
		}
	})
}

func modules(made []workshop.Module) []printer.Object {
	out := make([]printer.Object, 0, len(made))
	for _, m := range made {
		sizes := make([]printer.Object, 0, len(m.Sizes))
		for _, s := range m.Sizes {
			sizes = append(sizes, printer.Object{{Name: "import", Value: s.Path}, {Name: "code_bytes", Value: s.Bytes}})
		}
		out = append(out, printer.Object{
			{Name: "name", Value: m.Name}, {Name: "bytes", Value: m.Bytes}, {Name: "stripped_bytes", Value: m.Stripped},
			{Name: "sha256", Value: m.SHA256}, {Name: "compiler", Value: m.Compiler}, {Name: "sizes", Value: sizes},
		})
	}
	return out
}

// about returns the common description of a package.
func about(p *skill.Package, signer skill.Signer) printer.Object {
	m := p.Manifest
	return printer.Object{
		{Name: "id", Value: m.ID}, {Name: "version", Value: m.Version}, {Name: "publisher", Value: m.Publisher}, {Name: "digest", Value: p.Digest},
		{Name: "signed", Value: signer.KeyID != ""}, {Name: "key_id", Value: signer.KeyID}, {Name: "public_key", Value: publicText(signer.PublicKey)},
	}
}

func show(page *printer.Page, p *skill.Package, signer skill.Signer) {
	page.Field("skill", p.Manifest.ID+" "+p.Manifest.Version)
	page.Field("publisher", p.Manifest.Publisher)
	page.Field("digest", p.Digest)
	if signer.KeyID == "" {
		page.Field("signed by", "none")
		return
	}
	page.Field("signed by", signer.KeyID)
}

// opened reads a package from a file.
func opened(path string) (*skill.Package, error) {
	data, err := command.ReadAtMost(path, skill.MaxPackage+1)
	if err != nil {
		return nil, command.Usage("reading the package: %w", err).WithRemedy("Name a file that ends in %s.", skill.Extension)
	}
	return skill.Open(data)
}

func (a *skillCommands) verify() *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Verify the signature of a package", Args: command.Args(1, 1),
		Long: "Verify the signature of a package: every entry, the publisher and the\n" +
			"version. The key is part of the package, so its owner must be verified separately:\n" +
			"--key-id compares it with the publisher's key id. Exits 8 if verification fails.",
		Example: "palyra skills verify counter-0.1.0.palyra-skill\npalyra skills verify counter-0.1.0.palyra-skill --key-id SHA256:...",
		RunE: func(_ *cobra.Command, given []string) error {
			p, err := opened(given[0])
			if err != nil {
				return err
			}
			signer, err := skill.Verify(p)
			if err != nil {
				return err
			}
			if key != "" && key != signer.KeyID {
				return otherKey(signer.KeyID, key)
			}
			body := append(about(p, signer), printer.Member{Name: "key_compared", Value: key != ""})
			return a.PrintOne("SkillPackage", printer.Record{Name: p.Digest, Body: body}, func(page *printer.Page) {
				show(page, p, signer)
				if key == "" {
					page.Field("note", "that this key is the publisher's was not proven; --key-id compares it")
				}
			})
		},
	}
	c.Flags().StringVar(&key, "key-id", "", "the id of the publisher's key")
	return c
}

func (a *skillCommands) audit() *cobra.Command {
	var wildcards bool
	c := &cobra.Command{
		Use: "audit FILE", Short: "Inspect a package without running it", Args: command.Args(1, 1),
		Long: "Inspect a package without running it: its signature, its permissions, the\n" +
			"content and imports of its modules, its bill of materials and its\n" +
			"provenance. palyrad does the same before it installs one. Exits 8 when there is an\n" +
			"error.",
		Example: "palyra skills audit counter-0.1.0.palyra-skill\npalyra skills audit counter-0.1.0.palyra-skill -o json",
		RunE: func(_ *cobra.Command, given []string) error {
			p, err := opened(given[0])
			if err != nil {
				return err
			}
			limits := skill.DefaultLimits()
			limits.Wildcards, limits.Palyra = wildcards, version.Get().Version
			return a.say(p, skill.Audit(p, limits))
		},
	}
	c.Flags().BoolVar(&wildcards, "allow-wildcards", false, "allow tools to request wildcard hosts")
	return c
}

// say prints the findings of an audit.
func (a *skillCommands) say(p *skill.Package, found []skill.Finding) error {
	records := make([]printer.Record, 0, len(found))
	failed := 0
	for _, f := range found {
		if f.Severity == skill.Error {
			failed++
		}
		records = append(records, printer.Record{
			Name:  f.Code,
			Body:  printer.Object{{Name: "severity", Value: string(f.Severity)}, {Name: "code", Value: f.Code}, {Name: "about", Value: f.About}, {Name: "what", Value: f.What}, {Name: "remedy", Value: f.Remedy}},
			Cells: []string{fmt.Sprintf("%s: %s: %s [%s]\n  %s", f.About, f.Severity, f.What, f.Code, f.Remedy)},
		})
	}
	if err := a.PrintFindings("SkillFinding", records); err != nil {
		return err
	}
	a.Say("%s %s: %s, %s", p.Manifest.ID, p.Manifest.Version, text.Plural(failed, "error"), text.Plural(len(found)-failed, "warning"))
	if failed > 0 {
		return command.Exit(reason.ExitVerification)
	}
	return nil
}

// replace writes a file atomically.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+".")
	if err != nil {
		return command.Usage("writing the package: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return command.Usage("writing the package: %w", err)
	}
	return nil
}
