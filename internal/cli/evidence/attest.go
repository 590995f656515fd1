package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
)

// attestCommands provides the commands of this family.
type attestCommands struct{ *client.App }

var attestationListing = printer.Listing{
	Kind:    "Attestation",
	Columns: []string{"ID", "AT", "TOOL", "OUTCOME", "SEQ"},
	Wide:    []string{"PROPOSAL", "CALL DIGEST"},
	Empty:   "no attestations",
	Drop:    []string{"SEQ"},
}

// AttestCommand is `palyra attest`.
func AttestCommand(program *client.App) *cobra.Command {
	a := &attestCommands{program}
	var limit int
	list := &cobra.Command{Use: "list", Short: "List attestations, newest first", Args: command.Args(0, 0),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			pages := attestationPages(ctx, g, &palyrav1.ListAttestationsRequest{})
			return client.List(a.App, attestationListing, limit, pages, attestationRecord)
		})}
	list.Flags().IntVar(&limit, "limit", 50, "maximum number of entries; 0 means all")
	keys := &cobra.Command{Use: "keys", Short: "Show the key set that verifies attestations; -o json writes the file for --keys", Args: command.Args(0, 0),
		RunE: a.Connected(a.showKeys)}
	return command.NewGroup("attest", "Show and verify the signed statements about calls", list, a.attestShow(), a.attestVerify(), keys)
}

func attestationRecord(v *palyrav1.AttestationSummary) printer.Record {
	return printer.Record{
		Name: v.GetAttestationId(), Body: printer.ProtoObject(v),
		Cells: []string{v.GetAttestationId(), printer.Clock(v.GetAt()), v.GetTool(), v.GetOutcome(), fmt.Sprint(v.GetJournalSeq())},
		Wide:  []string{v.GetProposalId(), v.GetCallDigest()},
	}
}

func (a *attestCommands) attestShow() *cobra.Command {
	var envelope bool
	c := &cobra.Command{Use: "show ID", Short: "Show one attestation, by its id or its proposal's", Args: command.Args(1, 1),
		ValidArgsFunction: a.completeAttestations(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.showAttestation(ctx, g, given[0], envelope)
		})}
	c.Flags().BoolVar(&envelope, "envelope", false, "write only the DSSE envelope, byte for byte")
	return c
}

func (a *attestCommands) showAttestation(ctx context.Context, g *client.Gateway, id string, envelope bool) error {
	id, err := findAttestation(ctx, g, id)
	if err != nil {
		return err
	}
	v, err := g.Attestations.GetAttestation(ctx, &palyrav1.GetAttestationRequest{Id: id})
	if err != nil {
		return err
	}
	if envelope {
		return a.WriteRaw(v.GetEnvelopeJson())
	}
	set, err := witness.KeySet(ctx, g)
	if err != nil {
		return err
	}
	got, verifyErr := attest.Verify(v.GetEnvelopeJson(), set)
	body := append(printer.ProtoObject(v), printer.Member{"verified", verifyErr == nil}, printer.Member{"ca_root", set.Fingerprint()})
	if verifyErr != nil {
		if err := a.PrintOne("Attestation", printer.Record{Name: v.GetAttestationId(), Body: body}, func(p *printer.Page) {
			p.Field("attestation", v.GetAttestationId())
			p.Field("verified", "no")
		}); err != nil {
			return err
		}
		return verifyErr
	}
	statement, err := printer.Marshal(got.Statement)
	if err != nil {
		return err
	}
	body = append(body, printer.Member{"statement", json.RawMessage(statement)})
	return a.PrintOne("Attestation", printer.Record{Name: v.GetAttestationId(), Body: body}, func(p *printer.Page) {
		attestationPage(p, got, set)
		p.Field("journal", fmt.Sprintf("event %d", v.GetJournalSeq()))
		p.JSON("statement", statement)
	})
}

func attestationPage(p *printer.Page, v attest.Verified, set attest.KeySet) {
	x := v.Predicate
	p.Field("attestation", x.AttestationID)
	p.Field("verified", "yes, signed by "+v.KeyID)
	p.Field("gateway", x.Gateway)
	p.Field("CA root", set.Fingerprint())
	p.Field("tool", x.Invocation.Tool)
	p.Field("for", printer.OnBehalf(x.Invocation.Principal, x.Invocation.OnBehalfOf))
	p.Field("proposal", x.Invocation.ProposalID)
	p.Field("approval", x.Invocation.ApprovalID)
	p.Field("grant", x.Invocation.GrantID)
	p.Field("outcome", x.Result.Outcome)
	p.Field("reason", x.Result.Reason)
	if x.Result.ExitCode != nil {
		p.Field("exit code", fmt.Sprint(*x.Result.ExitCode))
	}
	p.Field("executor", strings.TrimSpace(string(x.Executor.Name)+" "+x.Executor.Backend))
	p.Field("enforcement", x.SandboxEnforcement)
	if fuel := x.Usage.FuelReported; fuel > 0 {
		p.Field("fuel", fmt.Sprintf("%d, as the worker reports", fuel))
	}
	p.List("used", used(x.Grants))
	p.List("downgrade", x.Enforcement.Downgrades)
	p.Field("attested", x.Times.AttestedAt.UTC().Format(time.RFC3339))
	p.Field("call digest", x.Invocation.CallDigest)
	p.Field("result", "sha256:"+x.ExecutionSHA256)
	ask.Ledger(p, x.Egress, 0)
}

// used returns lines about the grants that a guest used.
func used(grants []attest.GrantUse) (lines []string) {
	for _, g := range grants {
		line := fmt.Sprintf("%s %s: %d", g.Kind, g.Name, g.Uses)
		if g.Refused > 0 {
			line += fmt.Sprintf(", and %d refused", g.Refused)
		}
		lines = append(lines, line)
	}
	return lines
}

func (a *attestCommands) attestVerify() *cobra.Command {
	var keys, result string
	c := &cobra.Command{Use: "verify FILE|ID", Short: "Verify an attestation; with a file and --keys no gateway is needed", Args: command.Args(1, 1),
		Long:              "Verify an attestation: a DSSE envelope, or the output of `palyra attest show -o\njson` (- for stdin). If no such file exists, ID is the id of an attestation or its\nproposal, which is fetched from the gateway. Without --keys the key set is\nfetched as well, and must chain to the CA of your credential bundle. Exits 8\nif verification fails.",
		ValidArgsFunction: a.completeAttestations(),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.verifyAttestation(cmd.Context(), given[0], keys, result)
		}}
	c.Flags().StringVar(&keys, "keys", "", "the key set to verify with (written by: palyra attest keys -o json)")
	c.Flags().StringVar(&result, "result", "", "a file with the exact bytes of the result to compare")
	return c
}

func (a *attestCommands) verifyAttestation(ctx context.Context, given, keys, result string) error {
	envelope, err := a.envelopeOf(ctx, given)
	if err != nil {
		return err
	}
	set, trusted, err := a.keySet(ctx, keys)
	if err != nil {
		return err
	}
	v, err := attest.Verify(envelope, set)
	if err != nil {
		return err
	}
	if result != "" {
		data, err := os.ReadFile(result)
		if err != nil {
			return command.Usage("reading the result: %w", err)
		}
		if err := v.CheckResult(data); err != nil {
			return err
		}
	}
	body := printer.Object{
		{"verified", true}, {"attestation_id", v.Predicate.AttestationID}, {"key_id", v.KeyID}, {"sha256", v.SHA256},
		{"ca_root", set.Fingerprint()}, {"trusted", trusted}, {"result_verified", result != ""}, {"statement", v.Statement},
	}
	return a.PrintOne("AttestationVerification", printer.Record{Name: v.Predicate.AttestationID, Body: body}, func(p *printer.Page) {
		attestationPage(p, v, set)
		p.Field("trusted", trusted)
	})
}

// keySet returns the key set of the file, or of the gateway; trusted names its trust anchor.
func (a *attestCommands) keySet(ctx context.Context, path string) (set attest.KeySet, trusted string, err error) {
	if path != "" {
		set, err = readKeySet(path)
		return set, "the key set in " + path + "; compare its CA root over another channel", err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return set, "", err
	}
	set, err = witness.KeySet(ctx, g)
	return set, "the CA of your credential bundle", err
}

func readKeySet(path string) (attest.KeySet, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return attest.KeySet{}, command.Usage("reading the key set: %w", err)
	}
	set, err := attest.ParseKeySet(text)
	if err != nil && !looksLikeKeys(text) {
		return set, reason.Errorf(reason.VerificationFailed, "%s is not a key set", path).
			WithRemedy("Write one with `palyra attest keys -o json`.")
	}
	return set, err
}

// looksLikeKeys reports whether a file is apparently a key set, valid or not.
func looksLikeKeys(text []byte) bool {
	var doc struct {
		Keys   json.RawMessage `json:"keys"`
		CARoot json.RawMessage `json:"ca_root"`
	}
	return json.Unmarshal(text, &doc) == nil && len(doc.Keys) > 0 && len(doc.CARoot) > 0
}

// envelopeOf reads the envelope from a file, or fetches it by its id.
func (a *attestCommands) envelopeOf(ctx context.Context, given string) ([]byte, error) {
	if _, err := os.Stat(given); given == "-" || !errors.Is(err, fs.ErrNotExist) || !client.IsID(given) {
		return a.readEnvelope(given)
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	id, err := findAttestation(ctx, g, given)
	if err != nil {
		return nil, err
	}
	v, err := g.Attestations.GetAttestation(ctx, &palyrav1.GetAttestationRequest{Id: id})
	return v.GetEnvelopeJson(), err
}

// readEnvelope reads an envelope, or extracts it from the CLI's own document.
func (a *attestCommands) readEnvelope(path string) ([]byte, error) {
	text, err := command.ReadFile(a.In, path, attest.MaxEnvelope)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading the attestation: %w", err).
			WithRemedy("Specify a file written by `palyra attest show ID -o json`, or the id of an attestation.")
	}
	var doc struct {
		APIVersion string          `json:"apiVersion"`
		Envelope   json.RawMessage `json:"envelope"`
	}
	if json.Unmarshal(text, &doc) == nil && doc.APIVersion == printer.ApiVersion && len(doc.Envelope) > 0 {
		return doc.Envelope, nil
	}
	if looksLikeKeys(text) {
		return nil, reason.Errorf(reason.VerificationFailed, "%s is a key set, not an attestation", path).
			WithRemedy("Specify the attestation as FILE, and the key set with --keys.")
	}
	return text, nil
}

func (a *attestCommands) showKeys(ctx context.Context, g *client.Gateway, _ []string) error {
	set, err := witness.KeySet(ctx, g)
	if err != nil {
		return err
	}
	if a.Format() == printer.FormatJSON {
		text, err := set.JSON()
		if err != nil {
			return err
		}
		return a.WriteOut(string(printer.VisibleJSON(text)) + "\n")
	}
	var records []printer.Record
	for _, k := range set.Keys {
		body := printer.Object{{"key_id", k.KeyID}, {"algorithm", k.Algorithm}, {"not_before", k.NotBefore}, {"not_after", k.NotAfter}, {"retired", k.Retired}, {"ca_root", set.Fingerprint()}}
		records = append(records, printer.Record{
			Name: k.KeyID, Body: body,
			Cells: []string{k.KeyID, k.Algorithm, k.NotAfter.UTC().Format(time.RFC3339), printer.Yes(k.Retired)},
		})
	}
	a.Say("gateway %s, CA root %s", set.Gateway, set.Fingerprint())
	return a.PrintList(printer.Listing{Kind: "AttestationKey", Columns: []string{"KEY", "ALGORITHM", "ENDS", "RETIRED"}, Empty: "no keys"}, records)
}

func (a *attestCommands) completeAttestations() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.AttestationSummary, error) {
		return client.SuggestPage(attestationPages(ctx, g, &palyrav1.ListAttestationsRequest{}))
	}, func(v *palyrav1.AttestationSummary) (string, string) {
		return v.GetAttestationId(), v.GetTool() + " " + v.GetOutcome()
	})
}

// attestationPages returns a list of attestations page by page.
func attestationPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListAttestationsRequest) client.Pages[*palyrav1.AttestationSummary] {
	return func(size int32) ([]*palyrav1.AttestationSummary, bool, error) {
		req.PageSize = size
		reply, err := g.Attestations.ListAttestations(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetAttestations(), req.PageToken != "", err
	}
}

// findAttestation completes the id of an attestation, or of its proposal.
func findAttestation(ctx context.Context, g *client.Gateway, given string) (string, error) {
	pages := attestationPages(ctx, g, &palyrav1.ListAttestationsRequest{})
	return client.FindListed("attestation", given, pages, (*palyrav1.AttestationSummary).GetAttestationId, (*palyrav1.AttestationSummary).GetProposalId)
}
