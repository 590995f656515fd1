package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model/modeltest"
	"palyra/internal/surface/api"
	"palyra/test/leaks"
)

// runWith starts a run with a model and returns the ended run.
func (d *running) runWith(model string) *palyrav1.Run {
	d.t.Helper()
	gateway := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
	started := must.Get(gateway.StartRun(d.t.Context(), &palyrav1.StartRunRequest{Message: "hello", Model: model}))(d.t)
	stream := must.Get(gateway.WatchRun(d.t.Context(), &palyrav1.WatchRunRequest{RunId: started.GetRun().GetRunId()}))(d.t)
	defer stream.Close()
	for stream.Receive() {
		if end := stream.Msg().GetEvent().GetFinished(); end != nil {
			return end.GetRun()
		}
	}
	d.t.Fatalf("the run has no end: %v", stream.Err())
	return nil
}

// A model that cannot be used does not prevent the start. It is listed with its problem, and
// runs that use it fail with that problem. Other models work.
func TestModelsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := modeltest.OpenAI(t, modeltest.File("text"))
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, text string) string {
		path := filepath.Join(dir, name)
		must.Write(t, path, text)
		must.Do(t, os.Chmod(path, mode))
		return path
	}
	hosted := func(name, key string) config.Model {
		return config.Model{Name: name, Provider: config.ProviderOpenAI, Model: "test-model", BaseURL: server.URL, APIKeyFile: key, MaxOutputTokens: 100}
	}
	cfg := testConfig(t)
	cfg.Models = []config.Model{
		hosted("fine", file("fine.key", 0o600, modeltest.Key+"\n")),
		hosted("shown", file("shown.key", 0o644, modeltest.Key)),
		hosted("absent", filepath.Join(dir, "absent.key")),
		{Name: "silent", Provider: config.ProviderScripted, Script: file("silent.yaml", 0o600, "turns: []\n")},
	}
	var log bytes.Buffer
	d := startWith(t, Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))})
	status := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
	for i, want := range []string{"", "others than its owner may use it", "no such file", "the script has no turns"} {
		m := status.GetModels()[i]
		if m.GetName() != cfg.Models[i].Name || m.GetAvailable() != (want == "") || !strings.Contains(m.GetProblem(), want) || (m.GetRemedy() == "") != (want == "") {
			t.Errorf("listed as %v, want %q", m, want)
		}
		noticed := slices.ContainsFunc(status.GetNotices(), func(n string) bool { return strings.HasPrefix(n, "model "+m.GetName()+" is unavailable: ") })
		if noticed == m.GetAvailable() {
			t.Errorf("notices for %s: %q", m.GetName(), status.GetNotices())
		}
		run := d.runWith(m.GetName())
		if want == "" {
			if run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
				t.Errorf("the control ended as %v", run)
			}
			continue
		}
		if run.GetState() != palyrav1.RunState_RUN_STATE_FAILED || run.GetReason() != string(reason.ModelRejected) ||
			!strings.Contains(run.GetDetail(), want) || !strings.HasSuffix(run.GetRemedy(), "Then restart palyrad.") {
			t.Errorf("a run with %s ended as %v", m.GetName(), run)
		}
	}
	d.end()
	if n := strings.Count(log.String(), "a model is unavailable"); n != 3 || strings.Contains(log.String(), modeltest.Key) {
		t.Errorf("%d models are logged as unavailable:\n%s", n, log.String())
	}
}

// Without a model the gateway serves everything else.
func TestNoModels(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	_, err := palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "hello"})
	if code := reason.Of(api.ReasonOf(err)); code != reason.UnknownModel {
		t.Errorf("a run without a model: %v", err)
	}
}

// TestModelsReceiveTheirTools: a model receives the tools that its principal could ever call, and
// no others.
func TestModelsReceiveTheirTools(t *testing.T) {
	t.Parallel()
	server := modeltest.Local(t, modeltest.File("text"))
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"echo", "fs.*"}
	cfg.Models = []config.Model{{Name: "m", Provider: config.ProviderOpenAI, Model: "test-model", BaseURL: server.URL, MaxOutputTokens: 100}}
	d := start(t, cfg)
	d.runWith("")
	d.end()
	var request struct {
		Tools []struct{ Function struct{ Name string } }
	}
	must.Do(t, json.Unmarshal(server.Requests()[0].Body, &request))
	var names []string
	for _, told := range request.Tools {
		names = append(names, told.Function.Name)
	}
	if !slices.Contains(names, "echo") || !slices.Contains(names, "fs_read") || slices.Contains(names, "http_fetch") {
		t.Errorf("the model is told of %q", names)
	}
}

// called returns all messages and the error of a call.
func (d *running) called(tool, input string) (told string) {
	d.t.Helper()
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(d.t.Context(), &palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input)}))(d.t)
	defer stream.Close()
	for stream.Receive() {
		told += stream.Msg().String()
	}
	return told + fmt.Sprint(stream.Err())
}

// A model's key is read from the vault at each turn, so that a new value applies without a
// restart. A missing key or a locked vault fails the run and not the start. Calls cannot use
// the key by its name.
func TestModelKeysFromTheVault(t *testing.T) {
	t.Parallel()
	server := modeltest.Local(t, modeltest.File("text"), modeltest.File("text"))
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"echo", "secrets.*", "http.*"}
	cfg.Models = []config.Model{{Name: "m", Provider: config.ProviderOpenAI, Model: "test-model", BaseURL: server.URL, APIKeySecret: "vault://global/m", MaxOutputTokens: 100}}
	var log bytes.Buffer
	options := Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))}
	d := startWith(t, options)
	if run := d.runWith("m"); run.GetReason() != string(reason.ModelRejected) || !strings.Contains(run.GetRemedy(), "palyra vault put vault://global/m") {
		t.Errorf("without a key the run ended as %v", run)
	}
	secrets := palyrav1connect.NewVaultServiceClient(d.client(), d.url())
	var runs []string
	for _, key := range []string{"first-key-0123456789", "second-key-0123456789"} {
		must.Get(secrets.PutSecret(t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/m", Value: []byte(key)}))(t)
		run := d.runWith("m")
		if run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
			t.Fatalf("the run ended as %v", run)
		}
		runs = append(runs, run.GetRunId())
		requests := server.Requests()
		if got := requests[len(requests)-1].Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("the server got %q, want %s", got, key)
		}
	}
	hosts := &palyrav1.HostList{Hosts: []string{"api.example.org:443"}}
	must.Get(secrets.PutSecret(t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/offered", Value: []byte("some-value"), Hosts: hosts}))(t)
	if told := d.called("secrets.list", "{}"); strings.Contains(told, "global~m") || !strings.Contains(told, "global~offered") {
		t.Errorf("offered are: %s", told)
	}
	fetch := `{"url": "https://api.example.org/", "headers": {"authorization": "Bearer palyra-sec-global~m"}}`
	if told := d.called("http.fetch", fetch); !strings.Contains(told, "a placeholder that this caller cannot use") {
		t.Errorf("a call that names it: %s", told)
	}
	d.end()
	must.Do(t, os.Chmod(filepath.Join(cfg.StateDir, "vault.kek"), 0o644))
	d = startWith(t, options)
	_, err := palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "hello", Model: "m"})
	if reason.Of(api.ReasonOf(err)) != reason.VaultLocked || len(server.Requests()) != 2 {
		t.Errorf("with a locked vault: %v, %d requests", err, len(server.Requests()))
	}
	journal := string(d.export())
	d.end()
	for _, run := range runs {
		if n := strings.Count(journal, `"run_id":"`+run+`"`); !strings.Contains(journal, `"for":"model m at `) || n < 3 {
			t.Errorf("the journal names run %s %d times", run, n)
		}
	}
	_, told, err := leaks.Look(cfg.StateDir, map[string]string{"the journal": journal, "the log": log.String()},
		leaks.Kept("the first key", "first-key-0123456789"), leaks.Kept("the second key", "second-key-0123456789"))
	if must.Check(t, err); len(told) > 0 {
		t.Errorf("a key is told: %v", told)
	}
}
