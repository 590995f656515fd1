package registry

import (
	"cmp"
	"fmt"
	"slices"

	"palyra/internal/exec/skill"
)

// gains describes the permissions that the tools of a skill have in addition to the permissions of
// an older version. Without an older version it describes all requests. Hosts are compared as text,
// so that any possible difference requires approval. The older version is the one that runs: a
// quarantined or disabled version has no permissions, so an update of it gains all of them and
// requires approval.
func gains(old, is *skill.Manifest) []string {
	list := []string{}
	for _, t := range is.Tools {
		was, known := skill.Tool{}, false
		if old != nil {
			was, known = old.Tool(t.ID)
		}
		for _, what := range asked(was.Capabilities, t.Capabilities) {
			list = append(list, t.ID+": "+what)
		}
		if known && riskOf(t) < riskOf(was) {
			list = append(list, fmt.Sprintf("%s: count as a risk of %d, not of %d", t.ID, riskOf(t), riskOf(was)))
		}
	}
	return list
}

func riskOf(t skill.Tool) int { return cmp.Or(t.Risk, skill.DefaultRisk) }

// asked returns the requests of is that are not covered by was.
func asked(was, is skill.Capabilities) (list []string) {
	for _, host := range is.HTTP {
		if !slices.Contains(was.HTTP, host) && !slices.Contains(was.HTTP, skill.AnyHost) {
			list = append(list, "reach "+hosts(host))
		}
	}
	for _, s := range is.Secrets {
		switch {
		case slices.Contains(was.Secrets, s):
		case s.Use == skill.Read:
			list = append(list, "see the value of the secret "+s.Name)
		case !slices.Contains(was.Secrets, skill.Secret{Name: s.Name, Use: skill.Read}):
			list = append(list, "have the secret "+s.Name+" put into its requests")
		}
	}
	if is.StorageBytes > was.StorageBytes {
		what := fmt.Sprintf("keep up to %d bytes", is.StorageBytes)
		if was.StorageBytes > 0 {
			what += fmt.Sprintf(", not %d", was.StorageBytes)
		}
		list = append(list, what)
	}
	for _, channel := range is.Channels {
		if !slices.Contains(was.Channels, channel) {
			list = append(list, "send to the channel "+channel)
		}
	}
	if is.Clock && !was.Clock {
		list = append(list, "read the real time")
	}
	if is.Random && !was.Random {
		list = append(list, "use real randomness")
	}
	return list
}

func hosts(rule string) string {
	if rule == skill.AnyHost {
		return "every host that the operator's rules allow"
	}
	return rule
}

// Asks describes the requests of all tools of a skill.
func Asks(m *skill.Manifest) []string { return gains(nil, m) }
