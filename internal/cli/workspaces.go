package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

var workspaceListing = listing{
	kind:    "Workspace",
	columns: []string{"NAME", "PATH", "ACCESS", "PROGRAMS WRITE"},
	empty:   "no workspace is declared",
	drop:    []string{"PROGRAMS WRITE"},
}

var changeSetListing = listing{
	kind:    "ChangeSet",
	columns: []string{"ID", "COMMITTED", "STATE", "ADDED", "MODIFIED", "DELETED", "PROTECTED", "FOR"},
	wide:    []string{"BYTES", "CALL", "UNDOES", "ROOT"},
	empty:   "no change sets are kept",
	drop:    []string{"FOR", "PROTECTED"},
}

func (a *app) workspaceCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the declared workspaces", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listWorkspaces(cmd.Context()) }}
	changes := &cobra.Command{Use: "changes [WORKSPACE]", Short: "List what programs changed, newest first", Args: args(0, 1),
		ValidArgsFunction: a.completeWorkspaces,
		RunE:              func(cmd *cobra.Command, given []string) error { return a.listChangeSets(cmd.Context(), given) }}
	show := &cobra.Command{Use: "show ID", Short: "Show one change set with its diff", Args: args(1, 1)}
	undo := &cobra.Command{Use: "undo ID", Short: "Take a change set back", Args: args(1, 1),
		Long: "Take a change set back, all of it or nothing. Every file must still be as the\n" +
			"change set left it; where somebody changed one since, nothing is done. The\n" +
			"undoing is a change set of its own, which can be undone.",
		Example: "palyra workspace undo 01J...\npalyra workspace undo 01J... -w demo --reason \"wrong branch\""}
	var name, why string
	for _, c := range []*cobra.Command{show, undo} {
		c.Flags().StringVarP(&name, "workspace", "w", "", "the workspace; without it, all are looked through")
		_ = c.RegisterFlagCompletionFunc("workspace", a.completeWorkspaces)
		c.ValidArgsFunction = a.completeChangeSets
	}
	undo.Flags().StringVar(&why, "reason", "", "why, for the journal")
	show.RunE = func(cmd *cobra.Command, given []string) error { return a.showChangeSet(cmd.Context(), name, given[0]) }
	undo.RunE = func(cmd *cobra.Command, given []string) error {
		return a.undoChangeSet(cmd.Context(), name, given[0], why)
	}
	return newGroup("workspace", "See what programs changed in the workspaces, and take it back", list, changes, show, undo)
}

func (a *app) listWorkspaces(ctx context.Context) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.workspaces.ListWorkspaces(ctx, &palyrav1.ListWorkspacesRequest{})
	if err != nil {
		return err
	}
	return a.printList(workspaceListing, recordsOf(reply.GetWorkspaces(), workspaceRecord))
}

func workspaceRecord(w *palyrav1.WorkspaceStatus) record {
	access, writes := "read and write", strings.ReplaceAll(w.GetMode(), "_", " ")
	if w.GetReadOnly() {
		access, writes = "read only", "nothing"
	}
	return record{name: w.GetName(), body: protoObject(w), cells: []string{w.GetName(), w.GetPath(), access, writes}}
}

func (a *app) listChangeSets(ctx context.Context, given []string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	sets, err := g.changeSets(ctx, strings.Join(given, ""))
	if err != nil {
		return err
	}
	return a.printList(changeSetListing, recordsOf(sets, a.changeSetRecord))
}

// changeSets lists those of one workspace, or of all.
func (g *gateway) changeSets(ctx context.Context, workspace string) ([]*palyrav1.ChangeSet, error) {
	names := []string{workspace}
	if workspace == "" {
		reply, err := g.workspaces.ListWorkspaces(ctx, &palyrav1.ListWorkspacesRequest{})
		if err != nil {
			return nil, err
		}
		names = nil
		for _, w := range reply.GetWorkspaces() {
			names = append(names, w.GetName())
		}
	}
	var all []*palyrav1.ChangeSet
	for _, name := range names {
		reply, err := g.workspaces.ListChangeSets(ctx, &palyrav1.ListChangeSetsRequest{Workspace: name})
		if err != nil {
			return nil, err
		}
		all = append(all, reply.GetChangeSets()...)
	}
	return all, nil
}

func (a *app) changeSetRecord(s *palyrav1.ChangeSet) record {
	return record{
		name: s.GetChangeSetId(), body: protoObject(s),
		cells: []string{
			s.GetChangeSetId(), a.relative(s.GetCommittedAt()), short(s.GetState()), fmt.Sprint(s.GetAdded()), fmt.Sprint(s.GetModified()),
			fmt.Sprint(s.GetDeleted()), fmt.Sprint(len(s.GetProtected())), s.GetPrincipal(),
		},
		wide: []string{fmt.Sprint(s.GetBytes()), s.GetProposalId(), s.GetUndoes(), s.GetRoot()},
	}
}

func (a *app) showChangeSet(ctx context.Context, workspace, id string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	s, err := g.changeSet(ctx, workspace, id)
	if err != nil {
		return err
	}
	req := &palyrav1.GetChangeSetRequest{Workspace: s.GetWorkspace(), ChangeSetId: s.GetChangeSetId()}
	diff := ""
	var changes []*palyrav1.WorkspaceChange
	for {
		reply, err := g.workspaces.GetChangeSet(ctx, req)
		if err != nil {
			return err
		}
		changes = append(changes, reply.GetChanges()...)
		diff += reply.GetDiff()
		if req.PageToken = reply.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	r := a.changeSetRecord(s)
	var list []object
	for _, c := range changes {
		list = append(list, protoObject(c))
	}
	r.body = append(r.body, member{"changes", list}, member{"diff", diff})
	return a.printOne("ChangeSet", r, func(p *page) { a.changeSetPage(p, s, changes, diff) })
}

// changesShown is how many changes people are shown before the diff.
const changesShown = 50

func (a *app) changeSetPage(p *page, s *palyrav1.ChangeSet, changes []*palyrav1.WorkspaceChange, diff string) {
	a.changeSetFields(p, s)
	var paths strings.Builder
	for _, c := range changes[:min(len(changes), changesShown)] {
		fmt.Fprintf(&paths, "%-8s %s", c.GetKind(), visibleLine(c.GetPath()))
		if len(c.GetClasses()) > 0 {
			fmt.Fprintf(&paths, "  (protected: %s)", strings.Join(c.GetClasses(), ", "))
		}
		paths.WriteByte('\n')
	}
	if more := len(changes) - changesShown; more > 0 {
		fmt.Fprintf(&paths, "... and %d more; -o json lists all\n", more)
	}
	p.block("paths", paths.String())
	p.diff("diff", diff)
}

func (a *app) changeSetFields(p *page, s *palyrav1.ChangeSet) {
	p.field("change set", s.GetChangeSetId())
	p.field("workspace", s.GetWorkspace())
	p.field("committed", a.moment(s.GetCommittedAt()))
	p.field("state", short(s.GetState()))
	p.field("for", s.GetPrincipal())
	p.field("call", s.GetProposalId())
	p.field("undoes", s.GetUndoes())
	p.field("changes", fmt.Sprintf("%d added, %d modified, %d deleted", s.GetAdded(), s.GetModified(), s.GetDeleted()))
	p.field("digest", s.GetRoot())
}

// changeSet finds a change set by its id, or the beginning of it.
func (g *gateway) changeSet(ctx context.Context, workspace, given string) (*palyrav1.ChangeSet, error) {
	sets, err := g.changeSets(ctx, workspace)
	if err != nil {
		return nil, err
	}
	id, err := findID("change set", given, func() ([]string, error) {
		return recordNames(recordsOf(sets, func(s *palyrav1.ChangeSet) record { return record{name: s.GetChangeSetId()} })), nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if s.GetChangeSetId() == id {
			return s, nil
		}
	}
	return nil, reason.Errorf(reason.NotFound, "no change set %s is kept", id).
		WithRemedy("List those that are with `palyra workspace changes`.")
}

func (a *app) undoChangeSet(ctx context.Context, workspace, id, why string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	s, err := g.changeSet(ctx, workspace, id)
	if err != nil {
		return err
	}
	reply, err := g.workspaces.UndoChangeSet(ctx, &palyrav1.UndoChangeSetRequest{Workspace: s.GetWorkspace(), ChangeSetId: s.GetChangeSetId(), Reason: why})
	if err != nil {
		return err
	}
	done := reply.GetChangeSet()
	return a.printOne("ChangeSet", a.changeSetRecord(done), func(p *page) { a.changeSetFields(p, done) })
}
