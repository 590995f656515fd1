package gateway

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

func runnerWith(change func(*config.ProcessRunner)) *config.Config {
	cfg := config.Default()
	change(&cfg.ProcessRunner)
	return cfg
}

// TestNetworkSettings: the grants of programs contain each network setting.
func TestNetworkSettings(t *testing.T) {
	t.Parallel()
	cfg := runnerWith(func(p *config.ProcessRunner) {
		p.AllowedEgressHosts, p.AllowedDNSSuffixes = []string{"api.example.org:8443"}, []string{".example.net"}
		p.DeniedEgressHosts = []string{"evil.example.net"}
		p.EgressBudget.BytesOut = 1 << 20
		p.Inspect = []config.Inspect{{Host: "www.example.net:443", Methods: []string{"GET"}, Paths: []string{"/a/**"}}}
	})
	cfg.Secrets = []config.Secret{
		{Name: "token", Env: "TOKEN", Header: "Authorization", Hosts: []string{"api.example.org:8443"}},
		{Name: "of-fetches", Header: "Authorization", Hosts: []string{"api.example.org:8443"}},
	}
	grant, err := reach(cfg)
	must.Do(t, err)
	want := []string{
		"*.example.net:443", "*.example.net:80", "api.example.org:8443", "example.net:443", "example.net:80", "deny evil.example.net",
		`inspect www.example.net:443 methods=GET paths="/a/**"`,
		"secret token header=Authorization hosts=api.example.org:8443 env=TOKEN",
		"budget connections=10000 concurrent=128 bytes_out=1048576 bytes_in=4294967296 requests=100000 time=1h0m0s",
	}
	if got := grant.Lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Without strict, rules need no port, and domains cover all ports.
	cfg.ProcessRunner.EgressEnforcementMode = config.EgressPreflight
	cfg.ProcessRunner.AllowedEgressHosts, cfg.ProcessRunner.Inspect = []string{"api.example.org"}, nil
	if grant, err = reach(cfg); err != nil || !slices.Equal(grant.Hosts(), []string{"*.example.net", "api.example.org", "example.net"}) {
		t.Errorf("preflight: %q, %v", grant.Hosts(), err)
	}
}

// TestDefaultBudget: the default setting equals the default of package egress.
func TestDefaultBudget(t *testing.T) {
	t.Parallel()
	if got, want := budget(config.Default().ProcessRunner.EgressBudget), (egress.Budget{}).OrDefault(); got != want {
		t.Errorf("the default is %+v, the room's own %+v", got, want)
	}
}

func TestNetworkSettingsRefused(t *testing.T) {
	t.Parallel()
	inspect := func(host string) func(*config.ProcessRunner) {
		return func(p *config.ProcessRunner) {
			p.AllowedEgressHosts = []string{"*.example.org:443"}
			p.Inspect = []config.Inspect{{Host: host}}
		}
	}
	for name, row := range map[string]struct {
		change func(*config.ProcessRunner)
		want   reason.Code
	}{
		"a rule without a port":                    {func(p *config.ProcessRunner) { p.AllowedEgressHosts = []string{"example.org"} }, reason.HostInvalid},
		"a rule in disguise":                       {func(p *config.ProcessRunner) { p.AllowedEgressHosts = []string{"0x7f.1:443"} }, reason.HostInvalid},
		"a denial in disguise":                     {func(p *config.ProcessRunner) { p.DeniedEgressHosts = []string{"exämple.org"} }, reason.HostInvalid},
		"inspection of a host that is not allowed": {inspect("example.net:443"), reason.ConfigInvalid},
		"control": {inspect("api.example.org:443"), ""},
	} {
		if _, err := reach(runnerWith(row.change)); reason.Of(err) != row.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
