// Command pack makes the artifacts of a release from the programs in a stage: packages, archives,
// images, the SBOM, the lists of digests and their signatures. scripts/packages.sh runs it.
//
// The same commit and toolchain give the same bytes: every entry is sorted and has the owner root,
// a fixed mode and the time of the commit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

const usage = `usage: pack COMMAND [flags]

  version    print the version of the packages of a commit
  sbom       write the SBOM, and print its digest
  check-sbom compare the SBOM with what is linked into the staged programs
  artifacts  write packages, archives, images, formula, installer and the lists of digests
  keys       make a pair of throw-away keys for tests
  sign       sign the lists of digests and the provenance
  linux      write the deb and the rpm of this architecture alone, for the checks
  verify     verify a folder of artifacts with its public keys
  list       print name, size and digest of each artifact
  debian     write the pinned list of Debian packages of the image with sandbox

pack COMMAND -h prints the flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "pack: "+err.Error())
		stop()
		os.Exit(1) //nolint:gocritic // stop has run.
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("a command is missing")
	}
	var options options
	flags := flag.NewFlagSet("pack "+args[0], flag.ContinueOnError)
	options.declare(flags)
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("%q is not a command", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag of %s", flags.Arg(0), args[0])
	}
	return command(ctx, options)
}

var commands = map[string]func(context.Context, options) error{
	"version":    printVersion,
	"sbom":       writeSBOM,
	"check-sbom": checkSBOM,
	"artifacts":  writeArtifacts,
	"linux":      writeLinuxPackages,
	"keys":       makeKeys,
	"sign":       sign,
	"verify":     verify,
	"list":       list,
	"debian":     writeLock,
}

// options are the flags of all commands.
type options struct {
	root, stage, out  string
	tag, commit, date string
	builder, url      string
	mirror            string
	keys              keyOptions
}

func (o *options) declare(flags *flag.FlagSet) {
	flags.StringVar(&o.root, "root", ".", "the checkout")
	flags.StringVar(&o.stage, "stage", "bin/stage", "the folder with the programs of each platform")
	flags.StringVar(&o.out, "out", "bin/packages", "the folder of the artifacts")
	flags.StringVar(&o.tag, "tag", "", "the output of git describe --tags")
	flags.StringVar(&o.commit, "commit", "", "the full commit")
	flags.StringVar(&o.date, "date", "", "the time of the commit, RFC 3339 in UTC")
	flags.StringVar(&o.builder, "builder", "", "who builds, a URI or a name")
	flags.StringVar(&o.url, "url", "", "where the artifacts will be downloaded from, for the formula")
	flags.StringVar(&o.mirror, "mirror", "https://deb.debian.org/debian", "the mirror of Debian for the image with sandbox")
	o.keys.declare(flags)
}

// release returns the identity of what is packed.
func (o options) release() (release, error) {
	when, err := time.Parse(time.RFC3339, o.date)
	if err != nil {
		return release{}, fmt.Errorf("-date %q is not a time in RFC 3339; give the time of the commit", o.date)
	}
	return newRelease(o.tag, o.commit, when.UTC())
}

func printVersion(_ context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	fmt.Println(rel.version)
	return nil
}
