package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/changetable"
)

// asking is a gateway with pending approvals of two devices of one owner.
type asking struct {
	palyrav1connect.ApprovalsServiceClient
	palyrav1connect.StatusServiceClient

	cancelled *[]string
}

func (asking) GetStatus(context.Context, *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	return &palyrav1.GetStatusResponse{Caller: &palyrav1.Identity{Principal: "user:ann", DeviceId: "mine"}}, nil
}

func (asking) ListApprovals(_ context.Context, req *palyrav1.ListApprovalsRequest) (*palyrav1.ListApprovalsResponse, error) {
	if !slices.Equal(req.GetPrincipals(), []string{"user:ann"}) || len(req.GetStates()) != 1 || len(req.GetSubjectTypes()) != 2 {
		return nil, connect.NewError(connect.CodeInvalidArgument, nil)
	}
	return &palyrav1.ListApprovalsResponse{Approvals: []*palyrav1.Approval{
		{ApprovalId: "01OTHER", Device: "other", SubjectType: palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE},
		{ApprovalId: "01OTHER", Device: "mine", SubjectType: palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_TOOL, SubjectId: "01CALL"},
		{ApprovalId: "01MINE", Device: "mine", SubjectType: palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE},
	}}, nil
}

// request is a request of a method.
type request struct {
	connect.AnyRequest
	procedure string
	header    http.Header
}

func (r request) Spec() connect.Spec { return connect.Spec{Procedure: r.procedure} }

// TestWaitingChangePrintsItsApprovers: a change that waits for a second person has no deadline. Its
// eligible approvers are printed, and afterwards the member who approved it. Other calls keep their
// deadline.
func TestWaitingChangePrintsItsApprovers(t *testing.T) {
	t.Parallel()
	thaw := palyrav1connect.StatusServiceThawProcedure
	for name, c := range map[string]struct {
		procedure string
		takes     time.Duration
		header    http.Header
		says      []string
		not       []string
		ends      bool
	}{
		"at once":          {thaw, 0, http.Header{}, nil, []string{"waiting", "approved", "alone"}, false},
		"a second person":  {thaw, 20 * time.Minute, http.Header{changetable.ApprovalHeader: {"01MINE"}}, []string{"approval 01MINE, `palyra approve 01MINE`", "approved: 01MINE"}, []string{"01OTHER"}, false},
		"one person alone": {thaw, 0, http.Header{changetable.AloneHeader: {"there is\nnobody else"}}, []string{"applied without a second approver: there is", "nobody else"}, []string{"waiting"}, false},
		"another method":   {palyrav1connect.StatusServiceFreezeProcedure, 20 * time.Minute, http.Header{}, nil, []string{"waiting for another"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				a := NewApp(printer.Streams{Err: &said})
				d := deadline{out: a.Printer, g: &Gateway{Status: asking{}, Approvals: asking{}}}
				_, err := d.WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					res := connect.NewResponse(&palyrav1.ThawResponse{})
					for k, v := range c.header {
						res.Header()[k] = v
					}
					return res, nil
				})(t.Context(), request{procedure: c.procedure})
				if (err != nil) != c.ends {
					t.Errorf("%v", err)
				}
				for _, want := range c.says {
					if !strings.Contains(said.String(), want) {
						t.Errorf("%q lacks %q", said.String(), want)
					}
				}
				for _, not := range c.not {
					if strings.Contains(said.String(), not) {
						t.Errorf("%q says %q", said.String(), not)
					}
				}
			})
		})
	}
}

// Header implements connect.AnyRequest.
func (r request) Header() http.Header { return r.header }

// TestWaitFlag: without --wait, a command requests that the gateway does not wait for a second
// person. It prints the pending approval and exits with the code for that. Other errors and
// successes are unchanged.
func TestWaitFlag(t *testing.T) {
	t.Parallel()
	pending := reason.Errorf(reason.ChangePending, "the change waits for another owner").
		WithField("approval_id", "01MINE").WithField("expires_at", "2026-03-04T05:06:07Z").WithRemedy("Ask another person to answer.")
	denied := reason.Errorf(reason.ApprovalDenied, "bob said no")
	for name, c := range map[string]struct {
		args   []string
		err    error
		header string
		want   error
		out    string
	}{
		"waits, and is left":       {nil, pending, changetable.NoWait, command.Exit(reason.ExitPending), "01MINE"},
		"applied at once":          {nil, nil, changetable.NoWait, nil, ""},
		"denied":                   {nil, denied, changetable.NoWait, denied, ""},
		"--wait, applied":          {[]string{"--wait"}, nil, "", nil, ""},
		"--wait, denied":           {[]string{"--wait"}, denied, "", denied, ""},
		"--wait, an old pending":   {[]string{"--wait"}, pending, "", pending, ""},
		"the id alone for scripts": {[]string{"-o", "name"}, pending, changetable.NoWait, command.Exit(reason.ExitPending), "01MINE\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, said bytes.Buffer
			a := NewApp(printer.Streams{Out: &out, Err: &said})
			req := request{procedure: palyrav1connect.StatusServiceThawProcedure, header: http.Header{}}
			d := deadline{out: a.Printer, g: &Gateway{Status: asking{}, Approvals: asking{}}}
			cmd := a.Waits(&cobra.Command{Use: "thaw", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := d.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
					return connect.NewResponse(&palyrav1.ThawResponse{}), c.err
				})(cmd.Context(), req)
				return err
			}})
			cmd.Flags().StringVarP(&a.Output, "output", "o", "", "")
			cmd.SetArgs(c.args)
			if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if got := req.header.Get(changetable.WaitHeader); got != c.header {
				t.Errorf("%s: %q, want %q", changetable.WaitHeader, got, c.header)
			}
			if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 || strings.HasSuffix(c.out, "\n") && out.String() != c.out {
				t.Errorf("stdout %q, want %q", out.String(), c.out)
			}
		})
	}
}

// CancelApproval records the cancelled approvals.
func (a asking) CancelApproval(_ context.Context, req *palyrav1.CancelApprovalRequest) (*palyrav1.CancelApprovalResponse, error) {
	*a.cancelled = append(*a.cancelled, req.GetApprovalId())
	return &palyrav1.CancelApprovalResponse{}, nil
}

// An interrupted command withdraws its change if another part of the command would have used
// the result. With --wait the change stays pending, and the command to withdraw it is printed.
func TestInterruptedChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark      any
		withdrawn []string
		says      string
	}{
		"--wait":              {"", nil, "the change is still pending; withdraw it with `palyra approvals cancel 01MINE`"},
		"part of another one": {nil, []string{"01MINE"}, "withdrawn: 01MINE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				var cancelled []string
				gateway := asking{cancelled: &cancelled}
				d := deadline{out: printer.New(printer.Streams{Err: &said}), g: &Gateway{Status: gateway, Approvals: gateway}}
				ctx, interrupt := context.WithTimeout(context.WithValue(t.Context(), waiting{}, c.mark), time.Minute)
				defer interrupt()
				_, err := d.WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})(ctx, request{procedure: palyrav1connect.StatusServiceThawProcedure, header: http.Header{}})
				if err == nil || !slices.Equal(cancelled, c.withdrawn) || !strings.Contains(said.String(), c.says) {
					t.Errorf("%v, withdrawn %v: %s", err, cancelled, said.String())
				}
			})
		})
	}
}
