package calls

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// mostEdited bounds the arguments in bytes, like the gateway.
const mostEdited = 1 << 20

type editFlags struct{ input, digest, reason string }

func (a *answerCommands) approvalsEdit() *cobra.Command {
	var f editFlags
	c := &cobra.Command{
		Use: "edit ID [--input FILE]", Short: "Change the arguments of a pending call",
		Long: "Change the arguments of a pending call. Policy decides it again, and it waits\n" +
			"for approval as before; earlier votes are discarded. The editor becomes another\n" +
			"requester: policy must allow them to make the call, and if users cannot answer\n" +
			"their own calls, another user must approve. Values shown as [redacted] are kept.\n" +
			"The requester receives the changes.\n\n" +
			"In a terminal the arguments open in $VISUAL or $EDITOR.",
		Example: "palyra approvals edit 01J...\n" +
			"palyra approvals edit 01J... --input edited.json --reason \"not to main\" --digest sha256:...",
		Args: command.Args(1, 1), ValidArgsFunction: completeApprovals(a.App, true),
		RunE: func(cmd *cobra.Command, given []string) error { return a.edit(cmd.Context(), given[0], f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.input, "input", "", "a file with all arguments of the call as JSON, - for standard input")
	flags.StringVar(&f.digest, "digest", "", "the digest of the call that you reviewed; required without a terminal")
	flags.StringVar(&f.reason, "reason", "", "the reason; the requester receives it")
	return c
}

func (a *answerCommands) edit(ctx context.Context, id string, f editFlags) error {
	if err := command.CheckDigest(f.digest); err != nil {
		return err
	}
	if !a.Interactive() && (f.digest == "" || f.input == "") {
		return command.Usage("--input and --digest are required without a terminal").
			WithRemedy("Show the call and its digest with `palyra approvals show %s`.", id)
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if id, err = findApproval(ctx, g, id); err != nil {
		return err
	}
	reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
	if err != nil {
		return err
	}
	shown := reply.GetApproval()
	if f.digest != "" && f.digest != shown.GetCallDigest() {
		return reason.Errorf(reason.DigestMismatch, "the pending call does not match --digest").
			WithField("waiting", shown.GetCallDigest()).WithField("given", f.digest)
	}
	input, err := a.edited(ctx, shown, f.input)
	if err != nil || input == nil {
		return err
	}
	after, err := g.Approvals.EditApproval(ctx, &palyrav1.EditApprovalRequest{
		ApprovalId: id, Version: shown.GetVersion(), ShownDigest: shown.GetCallDigest(), InputJson: input, Reason: f.reason, Surface: "cli",
	})
	if err != nil {
		return err
	}
	return a.printEdited(after.GetApproval())
}

// printEdited prints the edited call, and how to answer it.
func (a *answerCommands) printEdited(v *palyrav1.Approval) error {
	a.Say("the call was changed and is waiting for approval; earlier votes were discarded")
	return a.PrintOne("Approval", approvalRecord(a.App, v), func(p *printer.Page) { ask.Page(a.App, p, v) })
}

// edited reads the arguments; nil after reporting that nothing changed.
func (a *answerCommands) edited(ctx context.Context, shown *palyrav1.Approval, from string) ([]byte, error) {
	var text []byte
	var err error
	switch from {
	case "":
		text, err = a.inEditor(ctx, shown.GetPrompt().GetArgumentsJson())
	case "-":
		text, err = io.ReadAll(io.LimitReader(a.In, mostEdited+1))
	default:
		text, err = readEdited(from)
	}
	switch {
	case err != nil:
		return nil, err
	case len(text) > mostEdited:
		return nil, reason.Errorf(reason.InputTooLarge, "the arguments are larger than %d bytes", mostEdited)
	}
	var whole, was bytes.Buffer
	if err := json.Compact(&whole, text); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "the edited arguments are not JSON: %w", err)
	}
	if json.Compact(&was, shown.GetPrompt().GetArgumentsJson()) == nil && bytes.Equal(whole.Bytes(), was.Bytes()) {
		a.Say("nothing was changed; the approval is still pending")
		return nil, nil
	}
	return whole.Bytes(), nil
}

func readEdited(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, command.Usage("reading %s: %w", path, err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostEdited+1))
}

// inEditor opens the arguments in the user's editor, in a file that only this user can read.
func (a *answerCommands) inEditor(ctx context.Context, arguments []byte) ([]byte, error) {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		return nil, command.Usage("neither VISUAL nor EDITOR is set").WithRemedy("Set EDITOR, or pass the arguments with --input FILE.")
	}
	dir, err := os.MkdirTemp("", "palyra-edit-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the editor: %w", err)
	}
	defer os.RemoveAll(dir)
	var text bytes.Buffer
	if err := json.Indent(&text, arguments, "", "  "); err != nil {
		return nil, fmt.Errorf("writing the arguments: %w", err)
	}
	path := filepath.Join(dir, "arguments.json")
	if err := os.WriteFile(path, append(text.Bytes(), '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("writing the arguments: %w", err)
	}
	words := append(strings.Fields(editor), path)
	run := exec.CommandContext(ctx, words[0], words[1:]...)
	run.Stdin, run.Stdout, run.Stderr = a.In, a.Err, a.Err
	if err := run.Run(); err != nil {
		return nil, command.Usage("the editor %s: %w", words[0], err).WithRemedy("Set EDITOR, or pass the arguments with --input FILE.")
	}
	return readEdited(path)
}
