package policy

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// describedFlags describe a call to `palyra policy explain` and `simulate`.
type describedFlags struct {
	input, as, session, channel, at string
	facts, votes                    []string
}

func (f *describedFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.input, "input", "", "the input: JSON, @FILE, or - for stdin")
	flags.StringVar(&f.as, "as", "", "who calls, KIND:NAME (default: you)")
	flags.StringVar(&f.session, "session", "", "the caller's name for the session")
	flags.StringVar(&f.channel, "channel", "", "the messaging channel it comes from")
	flags.StringVar(&f.at, "at", "", "when it is proposed, such as 2026-01-05T12:00:00Z (default: now)")
	flags.StringArrayVar(&f.facts, "fact", nil, "a PATH=VALUE that overrides a fact, such as exec.basename=git; repeat it, also for a list")
	flags.StringArrayVar(&f.votes, "vote", nil, "a yes as if cast, USER[:ROLE,...][@SURFACE]; may be repeated")
}

// given reports whether more than the tool of a call is described.
func (f *describedFlags) given() bool {
	return f.input != "" || f.as != "" || f.session != "" || f.channel != "" || f.at != "" || len(f.facts) > 0 || len(f.votes) > 0
}

// describe builds the description and connects to the gateway.
func (a *policyCommands) describe(ctx context.Context, toolName string, members []string, f describedFlags) (*client.Gateway, *palyrav1.CallDescription, error) {
	d := &palyrav1.CallDescription{Tool: toolName, Principal: f.as, Session: f.session, Channel: f.channel}
	var err error
	if d.InputJson, err = ask.GivenInput(a.App, f.input, members); err != nil {
		return nil, nil, err
	}
	if d.FactsJson, err = factsFrom(f.facts); err != nil {
		return nil, nil, err
	}
	if d.At, err = timeFrom(f.at); err != nil {
		return nil, nil, err
	}
	for _, text := range f.votes {
		v, err := voteFrom(text)
		if err != nil {
			return nil, nil, err
		}
		d.Votes = append(d.Votes, v)
	}
	g, err := a.Connect(ctx)
	if err == nil && len(members) > 0 {
		d.InputJson, err = ask.Typed(ctx, g, toolName, members)
	}
	return g, d, err
}

func timeFrom(text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, command.Usage("--at %q: want a time such as 2026-01-05T12:00:00Z", text)
	}
	return timestamppb.New(at), nil
}

// voteFrom reads USER[:ROLE,...][@SURFACE]. The vote counts as one from a paired device.
func voteFrom(text string) (*palyrav1.DescribedVote, error) {
	who, surface, _ := strings.Cut(text, "@")
	user, roles, hasRoles := strings.Cut(strings.TrimPrefix(who, "user:"), ":")
	if user == "" || hasRoles && roles == "" {
		return nil, command.Usage("--vote %q: want USER[:ROLE,...][@SURFACE]", text)
	}
	v := &palyrav1.DescribedVote{User: user, Surface: surface, Paired: true}
	if hasRoles {
		v.Roles = strings.Split(roles, ",")
	}
	return v, nil
}

// factTypes returns the types of the facts that can be given, by their path in the context.
func factTypes() map[string]ask.Property {
	types := map[string]ask.Property{"paths": {Type: "array"}} // for a call that changes several files
	for _, f := range policy.DescribedFacts() {
		kind := ask.JSONType("string") // an entity is given by its id
		switch f.PlainType() {
		case "Bool":
			kind = "boolean"
		case "Long":
			kind = "integer"
		case "Set<String>":
			kind = "array"
		}
		types[f.Name] = ask.Property{Type: kind}
	}
	return types
}

// factsFrom builds the JSON object of facts from PATH=VALUE; nil if there are none.
func factsFrom(given []string) ([]byte, error) {
	if len(given) == 0 {
		return nil, nil
	}
	types, texts := factTypes(), make(map[string][]string)
	for _, g := range given {
		path, value, ok := strings.Cut(g, "=")
		path = strings.TrimPrefix(path, "context.")
		if _, known := types[path]; !ok || !known {
			return nil, command.Usage("--fact %q: want PATH=VALUE with a fact that policies read", g).
				WithRemedy("%s", text.NearestHelp(path, slices.Sorted(maps.Keys(types))))
		}
		texts[path] = append(texts[path], value)
	}
	facts := make(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		value, err := types[path].Read("--fact "+path, texts[path])
		if err != nil {
			return nil, err
		}
		place(facts, path, value)
	}
	return printer.Marshal(facts)
}

// place puts a value at a path of at most two names.
func place(facts map[string]any, path string, value json.RawMessage) {
	outer, inner, nested := strings.Cut(path, ".")
	if !nested {
		facts[outer] = value
		return
	}
	group, ok := facts[outer].(map[string]any)
	if !ok {
		group = make(map[string]any)
		facts[outer] = group
	}
	group[inner] = value
}
