package runs

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// runFlags are the flags of `palyra run`.
type runFlags struct {
	model, workspace, session string
	calls                     int32
	tokens                    int64
	wallClock                 time.Duration
	detach, interactive       bool
}

// RunCommand is `palyra run`.
func RunCommand(program *client.App) *cobra.Command {
	a := &app{program}
	var f runFlags
	c := &cobra.Command{
		Use:   "run TASK",
		Short: "Let a model work on a task, and watch",
		Long: "Let a model work on a task, and watch. The gateway drives the model; every tool\n" +
			"call goes through policy, approval and sandbox like any other.\n\n" +
			"Without TASK, or with -, it is read from stdin. stdout is the model's last answer,\n" +
			"so that a script can use it; the progress is written to stderr. In a\n" +
			"terminal the text appears as the model writes it. -o ndjson writes every event\n" +
			"of the run instead, -o json one document with the run and the answer.\n\n" +
			"If policy asks a human, a terminal shows the call in full and takes the answer,\n" +
			"while the other calls continue; their output appears after it. Elsewhere the\n" +
			"command that answers is printed on stderr, and the call waits.\n\n" +
			"Ctrl-C asks the gateway to cancel the run and waits for its end; a second one\n" +
			"leaves at once. If the connection is lost, the run continues, and the command\n" +
			"reconnects to it.\n\n" +
			"Exits 0 if the run completed, 1 if it was cancelled, and otherwise with the exit\n" +
			"code of the reason for its end (`palyra help exit-codes`). Denied calls are\n" +
			"reported to the model and do not change the exit code.",
		Example: "palyra run \"why does the build fail?\"\n" +
			"palyra run -m fast -w demo --max-calls 20 \"tidy up the README\"\n" +
			"answer=$(palyra run - < task.md)\n" +
			"palyra run --detach \"update the dependencies\"\n" +
			"palyra run -i \"let us look at the tests\"",
		Args:              command.Args(0, -1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.runTask(cmd.Context(), given, f)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.model, "model", "m", "", "a model of the gateway's configuration (default: the first)")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "the workspace that the model works in (default: the one that holds the current directory, else the first)")
	flags.StringVar(&f.session, "session", "", "your name for the session; an approval for the session covers later calls in it (default: one of the run's own)")
	flags.Int32Var(&f.calls, "max-calls", 0, "maximum number of tool calls (default: the gateway's limit)")
	flags.Int64Var(&f.tokens, "max-tokens", 0, "maximum number of tokens, input and output of all turns (default: the gateway's limit)")
	flags.DurationVar(&f.wallClock, "max-time", 0, "maximum duration including waits for approval, such as 10m (default: the gateway's limit)")
	flags.BoolVar(&f.detach, "detach", false, "print the run's id and do not wait for it")
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "after each answer read your next message from the terminal; Ctrl-D ends the run. With --detach the run waits for messages (palyra runs message)")
	_ = c.RegisterFlagCompletionFunc("model", a.completeModels())
	_ = c.RegisterFlagCompletionFunc("workspace", a.CompleteWorkspaces())
	return c
}

func (a *app) runTask(ctx context.Context, given []string, f runFlags) error {
	if err := a.checkRunFlags(f); err != nil {
		return err
	}
	task, err := a.readText("task", "Specify the task of the model: palyra run \"TASK\".", given)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if f.workspace == "" {
		if f.workspace, err = ask.Here(ctx, g); err != nil {
			return err
		}
	}
	start := f.request(task)
	if f.detach {
		return a.startDetached(ctx, g, start)
	}
	link := newRunLink(g)
	link.start = start
	return a.newSession(g, link, f.interactive).run(ctx)
}

func (a *app) checkRunFlags(f runFlags) error {
	switch {
	case f.calls < 0 || f.tokens < 0 || f.wallClock < 0:
		return command.Usage("--max-calls, --max-tokens and --max-time want 0 or more")
	case f.interactive && !f.detach && !a.Interactive():
		return command.Usage("--interactive needs a terminal to read from").
			WithRemedy("Omit it; the run then ends with the model's answer. With --detach, the run waits for `palyra runs message`.")
	}
	return command.CheckName("session", f.session)
}

func (f runFlags) request(task string) *palyrav1.StartRunRequest {
	req := &palyrav1.StartRunRequest{
		Session: f.session, Message: task, Model: f.model, Workspace: f.workspace,
		Budget:      &palyrav1.RunBudget{Calls: f.calls, Tokens: f.tokens},
		Interactive: f.interactive, IdempotencyKey: ask.NewKey(),
	}
	if f.wallClock > 0 {
		req.Budget.WallClock = durationpb.New(f.wallClock)
	}
	return req
}

// maxText is the API's limit on one message to a model in bytes.
const maxText = 1 << 20

// readText reads a text for a model from the arguments, or from stdin. what is its name, and remedy
// explains how to pass it.
func (a *app) readText(what, remedy string, given []string) (string, error) {
	text := strings.Join(given, " ")
	if len(given) == 0 && a.InTerminal {
		return "", command.Usage("there is no %s", what).WithRemedy("%s", remedy)
	}
	if len(given) == 0 || text == "-" {
		if a.InTerminal {
			a.Say("reading the %s from the terminal; end it with Ctrl-D", what)
		}
		data, err := io.ReadAll(io.LimitReader(a.In, maxText+1))
		if err != nil {
			return "", command.Usage("reading the %s: %w", what, err)
		}
		text = string(data)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", command.Usage("the %s is empty", what).WithRemedy("%s", remedy)
	case len(text) > maxText:
		return "", reason.Errorf(reason.InputTooLarge, "the %s is larger than %d bytes", what, maxText).
			WithRemedy("Put the text into a file of the workspace and name the file.")
	case strings.ToValidUTF8(text, "") != text:
		return "", reason.Errorf(reason.InvalidUTF8, "the %s is not valid UTF-8", what)
	}
	return text, nil
}

// errStarted stops the attempts to start a run.
var errStarted = errors.New("the run was started")

func (a *app) startDetached(ctx context.Context, g *client.Gateway, start *palyrav1.StartRunRequest) error {
	var r *palyrav1.Run
	losses := 0
	lost := func(wait time.Duration) {
		losses++
		a.Say("connection lost; trying again in %s", wait)
	}
	err := reopenRun(ctx, a.Retry, lost, func(ctx context.Context) (bool, error) {
		reply, err := g.Calls.StartRun(ctx, start)
		if err != nil {
			return false, err
		}
		r = reply.GetRun()
		return true, errStarted
	})
	switch {
	case errors.Is(err, errStarted):
	case ctx.Err() != nil:
		return err
	default:
		return mayHaveStarted(err, losses > 0)
	}
	err = a.PrintOne("Run", a.runRecord(r), func(p *printer.Page) { p.Line(r.GetRunId()) })
	if a.ErrTerminal {
		a.Say("the run goes on without this command; watch it with `palyra runs watch %s`", r.GetRunId())
	}
	return err
}

// newSession follows a run over a link. Every format but ndjson has a view.
func (a *app) newSession(g *client.Gateway, link *runLink, interactive bool) *runSession {
	s := &runSession{a: a, g: g, link: link, watching: link.reading, interactive: interactive, id: link.runID}
	if a.Format() != printer.FormatNDJSON {
		s.view = newRunView(a)
		s.view.others = s.watching
	}
	return s
}

func (a *app) completeModels() cobra.CompletionFunc {
	return client.SuggestFlag(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.ModelStatus, error) {
		reply, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		return reply.GetModels(), err
	}, func(m *palyrav1.ModelStatus) (string, string) {
		return m.GetName(), strings.TrimSpace(m.GetProvider() + " " + m.GetModel())
	})
}
