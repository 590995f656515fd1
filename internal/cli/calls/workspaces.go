package calls

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// workspaceCommands provides the commands of this family.
type workspaceCommands struct{ *client.App }

var workspaceListing = printer.Listing{
	Kind:    "Workspace",
	Columns: []string{"NAME", "PATH", "ACCESS", "PROGRAMS WRITE"},
	Empty:   "no workspace is declared",
	Drop:    []string{"PROGRAMS WRITE"},
}

var changeSetListing = printer.Listing{
	Kind:    "ChangeSet",
	Columns: []string{"ID", "COMMITTED", "STATE", "ADDED", "MODIFIED", "DELETED", "PROTECTED", "FOR"},
	Wide:    []string{"BYTES", "CALL", "UNDOES", "ROOT"},
	Empty:   "no change sets are stored",
	Drop:    []string{"FOR", "PROTECTED", "DELETED"},
}

// WorkspacesCommand is `palyra workspace`.
func WorkspacesCommand(program *client.App) *cobra.Command {
	a := &workspaceCommands{program}
	list := &cobra.Command{Use: "list", Short: "List the declared workspaces", Args: command.Args(0, 0),
		RunE: client.ShowList(a.App, workspaceListing, workspaceRecord, workspacesOf)}
	changes := &cobra.Command{Use: "changes [WORKSPACE]", Short: "List what programs changed, newest first", Args: command.Args(0, 1),
		ValidArgsFunction: a.CompleteWorkspaces(),
		RunE:              a.Connected(a.listChangeSets)}
	show := &cobra.Command{Use: "show ID", Short: "Show one change set with its diff", Args: command.Args(1, 1)}
	undo := &cobra.Command{Use: "undo ID", Short: "Undo a change set", Args: command.Args(1, 1),
		Long: "Undo a change set, all of it or nothing. Every file must still be as the\n" +
			"change set left it; if one changed since, nothing is undone. The\n" +
			"undo is another change set, which can be undone.\n\n" +
			"Policy decides it like the changes of a program: if those need approval,\n" +
			"the command waits for it. While the gateway is frozen, only\n" +
			"owners and admins can undo changes; if a second person has to approve, the\n" +
			"command prints the approval and ends, unless --wait is set.",
		Example: "palyra workspace undo 01J...\npalyra workspace undo 01J... -w demo --reason \"wrong branch\""}
	var name, why string
	for _, c := range []*cobra.Command{show, undo} {
		c.Flags().StringVarP(&name, "workspace", "w", "", "the workspace (default: search all)")
		_ = c.RegisterFlagCompletionFunc("workspace", a.CompleteWorkspaces())
		c.ValidArgsFunction = a.completeChangeSets()
	}
	undo.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	show.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
		return a.showChangeSet(ctx, g, name, given[0])
	})
	undo.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
		return a.undoChangeSet(ctx, g, name, given[0], why)
	})
	return command.NewGroup("workspace", "Show and undo the changes of programs in workspaces", list, changes, show, a.Waits(undo))
}

func workspacesOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.WorkspaceStatus, error) {
	reply, err := g.Workspaces.ListWorkspaces(ctx, &palyrav1.ListWorkspacesRequest{})
	return reply.GetWorkspaces(), err
}

func workspaceRecord(w *palyrav1.WorkspaceStatus) printer.Record {
	access, writes := "read and write", strings.ReplaceAll(w.GetMode(), "_", " ")
	if w.GetReadOnly() {
		access, writes = "read only", "nothing"
	}
	return printer.Record{Name: w.GetName(), Body: printer.ProtoObject(w), Cells: []string{w.GetName(), w.GetPath(), access, writes}}
}

func (a *workspaceCommands) listChangeSets(ctx context.Context, g *client.Gateway, given []string) error {
	sets, err := changeSets(ctx, g, strings.Join(given, ""))
	if err != nil {
		return err
	}
	return a.PrintList(changeSetListing, printer.Records(sets, a.changeSetRecord))
}

// changeSets lists the change sets of one workspace, or of all.
func changeSets(ctx context.Context, g *client.Gateway, workspace string) ([]*palyrav1.ChangeSet, error) {
	names := []string{workspace}
	if workspace == "" {
		declared, err := workspacesOf(ctx, g)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, w := range declared {
			names = append(names, w.GetName())
		}
	}
	var all []*palyrav1.ChangeSet
	for _, name := range names {
		reply, err := g.Workspaces.ListChangeSets(ctx, &palyrav1.ListChangeSetsRequest{Workspace: name})
		if err != nil {
			return nil, err
		}
		all = append(all, reply.GetChangeSets()...)
	}
	return all, nil
}

func (a *workspaceCommands) changeSetRecord(s *palyrav1.ChangeSet) printer.Record {
	return printer.Record{
		Name: s.GetChangeSetId(), Body: printer.ProtoObject(s),
		Cells: []string{
			s.GetChangeSetId(), a.Relative(s.GetCommittedAt()), printer.Enum(s.GetState()), fmt.Sprint(s.GetAdded()), fmt.Sprint(s.GetModified()),
			fmt.Sprint(s.GetDeleted()), fmt.Sprint(len(s.GetProtected())), s.GetPrincipal(),
		},
		Wide: []string{fmt.Sprint(s.GetBytes()), s.GetProposalId(), s.GetUndoes(), s.GetRoot()},
	}
}

func (a *workspaceCommands) showChangeSet(ctx context.Context, g *client.Gateway, workspace, id string) error {
	s, err := changeSet(ctx, g, workspace, id)
	if err != nil {
		return err
	}
	req := &palyrav1.GetChangeSetRequest{Workspace: s.GetWorkspace(), ChangeSetId: s.GetChangeSetId()}
	diff, restricted := "", int32(0)
	var changes []*palyrav1.WorkspaceChange
	for {
		reply, err := g.Workspaces.GetChangeSet(ctx, req)
		if err != nil {
			return err
		}
		changes = append(changes, reply.GetChanges()...)
		diff, restricted = diff+reply.GetDiff(), restricted+reply.GetRestrictedFiles()
		if req.PageToken = reply.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	r := a.changeSetRecord(s)
	var list []printer.Object
	for _, c := range changes {
		list = append(list, printer.ProtoObject(c))
	}
	r.Body = append(r.Body, printer.Member{"changes", list}, printer.Member{"diff", diff}, printer.Member{"restricted_files", restricted})
	return a.PrintOne("ChangeSet", r, func(p *printer.Page) { a.changeSetPage(p, s, changes, diff, restricted) })
}

// changesShown is how many changes are listed before the diff.
const changesShown = 50

func (a *workspaceCommands) changeSetPage(p *printer.Page, s *palyrav1.ChangeSet, changes []*palyrav1.WorkspaceChange, diff string, restricted int32) {
	a.changeSetFields(p, s)
	var paths strings.Builder
	for _, c := range changes[:min(len(changes), changesShown)] {
		fmt.Fprintf(&paths, "%-8s %s", c.GetKind(), printer.VisibleLine(c.GetPath()))
		if len(c.GetClasses()) > 0 {
			fmt.Fprintf(&paths, "  (protected: %s)", strings.Join(c.GetClasses(), ", "))
		}
		paths.WriteByte('\n')
	}
	if more := len(changes) - changesShown; more > 0 {
		fmt.Fprintf(&paths, "... and %d more; -o json lists all\n", more)
	}
	p.Block("paths", paths.String())
	p.Diff("diff", diff)
	if restricted > 0 {
		p.Field("omitted", fmt.Sprintf("the content of %d files that policy does not let you read (fs.read)", restricted))
	}
}

func (a *workspaceCommands) changeSetFields(p *printer.Page, s *palyrav1.ChangeSet) {
	p.Field("change set", s.GetChangeSetId())
	p.Field("workspace", s.GetWorkspace())
	p.Field("committed", a.Moment(s.GetCommittedAt()))
	p.Field("state", printer.Enum(s.GetState()))
	p.Field("for", s.GetPrincipal())
	p.Field("call", s.GetProposalId())
	p.Field("undoes", s.GetUndoes())
	p.Field("changes", fmt.Sprintf("%d added, %d modified, %d deleted", s.GetAdded(), s.GetModified(), s.GetDeleted()))
	p.Field("digest", s.GetRoot())
}

// changeSet finds a change set by its id or a prefix of it.
func changeSet(ctx context.Context, g *client.Gateway, workspace, given string) (*palyrav1.ChangeSet, error) {
	sets, err := changeSets(ctx, g, workspace)
	if err != nil {
		return nil, err
	}
	id, err := client.FindListed("change set", given, func(int32) ([]*palyrav1.ChangeSet, bool, error) { return sets, false, nil }, (*palyrav1.ChangeSet).GetChangeSetId)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if s.GetChangeSetId() == id {
			return s, nil
		}
	}
	return nil, reason.Errorf(reason.NotFound, "the change set %s is not stored", id).
		WithRemedy("List the stored ones with `palyra workspace changes`.")
}

func (a *workspaceCommands) undoChangeSet(ctx context.Context, g *client.Gateway, workspace, id, why string) error {
	s, err := changeSet(ctx, g, workspace, id)
	if err != nil {
		return err
	}
	reply, err := g.Workspaces.UndoChangeSet(ctx, &palyrav1.UndoChangeSetRequest{Workspace: s.GetWorkspace(), ChangeSetId: s.GetChangeSetId(), Reason: why})
	if err != nil {
		return err
	}
	if s.GetState() == palyrav1.ChangeSetState_CHANGE_SET_STATE_UNDONE {
		a.Say("%s was already undone; nothing changed. This is the change set of the undo:", s.GetChangeSetId())
	}
	done := reply.GetChangeSet()
	return a.PrintOne("ChangeSet", a.changeSetRecord(done), func(p *printer.Page) { a.changeSetFields(p, done) })
}

func (a *workspaceCommands) completeChangeSets() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.ChangeSet, error) {
		return changeSets(ctx, g, "")
	}, func(s *palyrav1.ChangeSet) (string, string) {
		return s.GetChangeSetId(), printer.Enum(s.GetState()) + " in " + s.GetWorkspace()
	})
}
