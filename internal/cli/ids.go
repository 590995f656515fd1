package cli

import (
	"context"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/lazyregexp"
	"palyra/internal/reason"
)

const (
	// idLength is that of a ULID.
	idLength = 26
	// shortestPrefix is how much of an id is enough to look it up.
	shortestPrefix = 6
)

var idForm = lazyregexp.New(`^[0-9A-Z]+$`)

// findID completes an id of which a person gave the beginning, in any case.
// known lists the ids there are; it is asked only when part of the id is left
// away.
func findID(kind, given string, known func() ([]string, error)) (string, error) {
	id := strings.ToUpper(strings.TrimSpace(given))
	if len(id) < shortestPrefix || len(id) > idLength || !idForm.MatchString(id) {
		return "", usage("%q is not the id of any %s", given, kind).
			WithRemedy("Give its %d letters and digits, or at least the first %d.", idLength, shortestPrefix)
	}
	if len(id) == idLength {
		return id, nil
	}
	all, err := known()
	if err != nil {
		return "", err
	}
	var found []string
	for _, one := range all {
		if strings.HasPrefix(one, id) && !slices.Contains(found, one) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return "", reason.Errorf(reason.NotFound, "there is no %s whose id begins with %s", kind, id)
	case 1:
		return found[0], nil
	}
	return "", usage("%s of an id: %s begin with it", id, plural(len(found), kind)).
		WithRemedy("Give more of it; they are %s.", strings.Join(found[:min(len(found), 5)], ", "))
}

// namesOf reads a list to its end and returns the ids in it.
func namesOf(page func(size int32) (ids []record, more bool, err error)) ([]string, error) {
	records, _, err := collect(0, page)
	return recordNames(records), err
}

func recordNames(records []record) []string {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.name
	}
	return names
}

func (g *gateway) approvalID(ctx context.Context, given string) (string, error) {
	return findID("approval", given, func() ([]string, error) {
		req := &palyrav1.ListApprovalsRequest{}
		return namesOf(func(size int32) ([]record, bool, error) {
			req.PageSize = size
			reply, err := g.approvals.ListApprovals(ctx, req)
			req.PageToken = reply.GetNextPageToken()
			return recordsOf(reply.GetApprovals(), func(v *palyrav1.Approval) record {
				return record{name: v.GetApprovalId()}
			}), req.PageToken != "", err
		})
	})
}

func (g *gateway) grantID(ctx context.Context, given string) (string, error) {
	return findID("grant", given, func() ([]string, error) {
		req := &palyrav1.ListGrantsRequest{IncludeEnded: true}
		return namesOf(func(size int32) ([]record, bool, error) {
			req.PageSize = size
			reply, err := g.approvals.ListGrants(ctx, req)
			req.PageToken = reply.GetNextPageToken()
			return recordsOf(reply.GetGrants(), func(v *palyrav1.Grant) record {
				return record{name: v.GetGrantId()}
			}), req.PageToken != "", err
		})
	})
}

func (g *gateway) runID(ctx context.Context, given string) (string, error) {
	return findID("run", given, func() ([]string, error) {
		req := &palyrav1.ListRunsRequest{}
		return namesOf(func(size int32) ([]record, bool, error) {
			req.PageSize = size
			reply, err := g.calls.ListRuns(ctx, req)
			req.PageToken = reply.GetNextPageToken()
			return recordsOf(reply.GetRuns(), func(v *palyrav1.Run) record {
				return record{name: v.GetRunId()}
			}), req.PageToken != "", err
		})
	})
}

// attestationID completes the id of an attestation, or of its proposal.
func (g *gateway) attestationID(ctx context.Context, given string) (string, error) {
	return findID("attestation", given, func() ([]string, error) {
		req := &palyrav1.ListAttestationsRequest{}
		return namesOf(func(size int32) ([]record, bool, error) {
			req.PageSize = size
			reply, err := g.attestations.ListAttestations(ctx, req)
			req.PageToken = reply.GetNextPageToken()
			var ids []record
			for _, v := range reply.GetAttestations() {
				ids = append(ids, record{name: v.GetAttestationId()}, record{name: v.GetProposalId()})
			}
			return ids, req.PageToken != "", err
		})
	})
}

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// checkDigest refuses what is no digest; "" is none given.
func checkDigest(s string) error {
	if s == "" || digestForm.MatchString(s) {
		return nil
	}
	return usage("%q is no digest", s).WithRemedy("Copy it whole: sha256: and 64 digits from 0 to 9 and a to f.")
}

var nameForm = lazyregexp.New(`^[A-Za-z0-9._-]*$`)

// checkName refuses a name of a session or run that the gateway would refuse.
func checkName(flag, s string) error {
	const longest = 64
	if len(s) <= longest && nameForm.MatchString(s) {
		return nil
	}
	return usage("--%s %q: want at most %d letters, digits, points, hyphens and underscores", flag, s, longest)
}
