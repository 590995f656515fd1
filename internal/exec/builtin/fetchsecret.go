package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// secretHeaders returns the headers of the operator's secrets, in lower case, sorted and without
// duplicates.
func secretHeaders(secrets []egress.Secret) []string {
	var list []string
	for _, s := range secrets {
		list = append(list, strings.ToLower(s.Header))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// secretsToldOf describes the secrets for the tool description, "" if there are none. Their
// placeholders are the same in every call, so that a model can use them.
func secretsToldOf(secrets []egress.Secret) string {
	if len(secrets) == 0 {
		return ""
	}
	x := secret.New("", secrets)
	var b strings.Builder
	b.WriteString(" Credentials that you may use without seeing them, each by its placeholder in the one header named, alone or after a scheme such as Bearer," +
		" over https; a placeholder anywhere else is refused, and answers show the placeholder where they hold the credential:")
	for i, s := range secrets {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s in %s for %s", x.Placeholder(s.Name), strings.ToLower(s.Header), egress.Named(s.Reach()))
	}
	b.WriteByte('.')
	return b.String()
}

// uses returns the secrets whose placeholders a request contains, and refuses a placeholder in
// any other place. It reads no value, and does not query the vault for a request without
// placeholders.
func (t fetch) uses(ctx context.Context, p tool.Proposal, r request) ([]secret.Use, error) {
	known := t.policy.Secrets
	if t.lender != nil && r.marked() {
		asked := r.asked()
		offers, _, err := t.lender.Offers(ctx, p, len(asked), func(s egress.Secret) bool {
			return slices.ContainsFunc(asked, func(placeholder string) bool { return secret.Named(placeholder, s.Name) })
		})
		if err != nil {
			return nil, err
		}
		if known = slices.Concat(known, offers); len(known) == 0 {
			return nil, reason.Errorf(reason.EgressDenied, "the request contains a placeholder that this caller cannot use").
				WithRemedy("List the usable secrets with the tool %s, and write the placeholder alone or after a scheme such as Bearer; or have the secret stored with `palyra vault put`.", listSecretsName)
		}
	}
	x := secret.New("", known)
	if x.Idle() {
		return nil, nil
	}
	request, err := r.http(context.Background())
	if err != nil {
		return nil, err
	}
	uses, err := x.Find(request, egress.Target{Host: r.host, Port: r.port}, r.url.Scheme == "https")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, x.Watch(bytes.NewReader(r.body)))
	return uses, err
}

// marked reports whether any part of a request looks like a placeholder. Placeholders of a vault
// are refused in the same places as the operator's.
func (r request) marked() bool {
	var body secret.Watcher
	if _, err := body.Next(r.body, true); err != nil || secret.Marked(r.url.String()) {
		return true
	}
	for _, value := range r.headers {
		if secret.Marked(value) {
			return true
		}
	}
	return false
}

// asked returns the placeholders in the headers of a request.
func (r request) asked() (list []string) {
	for _, value := range r.headers {
		if placeholder := secret.Asked(value); placeholder != "" {
			list = append(list, placeholder)
		}
	}
	return list
}

// lent returns the secrets that a decided request may send and whose values are removed from
// its response: the secrets of the configuration, and the requested secrets of the vault.
func (t fetch) lent(c tool.Call, r request) ([]egress.Secret, func()) {
	var asked []egress.Secret
	for _, u := range r.secrets {
		if u.Secret.Lent() {
			asked = append(asked, u.Secret)
		}
	}
	if len(asked) == 0 {
		return t.policy.Secrets, func() {}
	}
	lent, end := t.lender.Lend(c, asked)
	return slices.Concat(t.policy.Secrets, lent), end
}

// secretNames returns the names, sorted and without duplicates. secretBinding is the part of the
// approval's binding, and secretNotes are displayed to the approver.
func secretNames(uses []secret.Use) (names []string) {
	for _, u := range uses {
		names = append(names, u.Secret.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func secretBinding(uses []secret.Use) (pairs []string) {
	for _, u := range uses {
		pairs = append(pairs, strings.ToLower(u.Header)+"="+u.Secret.Bound())
	}
	slices.Sort(pairs)
	return pairs
}

func secretNotes(uses []secret.Use, to string) (notes []string) {
	for _, u := range uses {
		notes = append(notes, fmt.Sprintf("Sends the secret %s to %s in the header %s. The caller sees a placeholder.", u.Secret.Called(), to, u.Header))
	}
	slices.Sort(notes)
	return notes
}
