package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: tiers COMMAND [flags] [NAME...]

  changed   tests of the packages that differ from a base, and of their direct importers
  quick     tests that need no root, network, browser or foreign program
  test      the tiers of "make test"
  all       the tiers of "make test" and the long tiers
  rotate    the long tiers whose turn it is at this commit, then others while time remains
  run       the named tiers
  flaky     the packages of -pkg, many times, while every processor is busy
  fuzz      the fuzz targets, -each for a time, all of them -within a time
  list      the tiers with their needs and the number of their tests

flags:
`

// options are the flags of the command line.
type options struct {
	packages string
	run      string
	base     string
	report   string
	goTool   string
	count    int
	budget   time.Duration
	elapsed  time.Duration
	each     time.Duration
	within   time.Duration
	race     bool
	install  bool
	etc      string
	null     string
	names    []string
}

func parse(args []string, errs io.Writer) (command string, o options, err error) {
	flags := flag.NewFlagSet("tiers", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.packages, "pkg", "./...", "packages to test, as patterns of the go command")
	flags.StringVar(&o.run, "run", "", "run only the tests that match this regular expression")
	flags.StringVar(&o.base, "base", "", "commit that changed packages are compared with (default: origin/main, else HEAD~1)")
	flags.StringVar(&o.report, "report", "", "directory for junit.xml and durations.txt")
	flags.StringVar(&o.goTool, "go", "go", "the go command")
	flags.IntVar(&o.count, "count", 0, "run each test this many times; for flaky the number of runs (default 50)")
	flags.DurationVar(&o.budget, "budget", 75*time.Minute, "time that rotate and the runs before it may take together")
	flags.DurationVar(&o.elapsed, "elapsed", 0, "time of that budget that is already spent")
	flags.DurationVar(&o.each, "each", 10*time.Second, "fuzz: time for each target")
	flags.DurationVar(&o.within, "within", 0, "fuzz: time for all targets (default: none)")
	flags.BoolVar(&o.race, "race", false, "flaky: use the race detector")
	flags.BoolVar(&o.install, "install", true, "install missing Debian packages before the tiers start")
	flags.StringVar(&o.etc, "etc", "/etc", "directory that tests must leave unchanged")
	flags.StringVar(&o.null, "null", "/dev/null", "null device that tests must leave unchanged")
	if len(args) == 0 {
		flags.Usage()
		return "", o, errors.New("no command is given")
	}
	command = args[0]
	if err := flags.Parse(args[1:]); err != nil {
		return "", o, err
	}
	o.names = flags.Args()
	return command, o, nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == burnCommand {
		burn()
	}
	if code, isWorker := supervise(); !isWorker {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, errFailed) && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "tiers:", err)
		}
		stop()
		os.Exit(1)
	}
}

// errFailed reports that tests failed, after the run has printed them.
var errFailed = errors.New("tests failed")

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	command, o, err := parse(args, errs)
	if err != nil {
		return err
	}
	s := &session{options: o, out: out, started: time.Now()}
	switch command {
	case "changed":
		return s.runChanged(ctx)
	case "quick":
		return s.runTiers(ctx, tiersOf(quick))
	case "test":
		return s.runTiers(ctx, tiersOf(core))
	case "all":
		return s.runTiers(ctx, append(tiersOf(core), tiersOf(long)...))
	case "rotate":
		return s.runRotation(ctx)
	case "run":
		chosen, err := named(o.names)
		if err != nil {
			return err
		}
		return s.runTiers(ctx, chosen)
	case "flaky":
		return s.runFlaky(ctx)
	case "fuzz":
		return s.runFuzz(ctx)
	case "list":
		return s.list(ctx)
	default:
		return fmt.Errorf("%q is not a command; use one of changed, quick, test, all, rotate, run, flaky, fuzz, list", command)
	}
}

// named returns the tiers with these names.
func named(names []string) ([]tier, error) {
	var chosen []tier
	for _, name := range names {
		found := false
		for _, t := range tiers {
			if t.name == name {
				chosen, found = append(chosen, t), true
			}
		}
		if !found {
			return nil, fmt.Errorf("tier %q does not exist; use one of %s", name, strings.Join(tierNames(), ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no tier is named; use one of %s", strings.Join(tierNames(), ", "))
	}
	return chosen, nil
}
